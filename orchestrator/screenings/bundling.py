"""The files that carry the certificates of a screening."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import bundle, dsse
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.logbook import Logbook, entry_of
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.schema import KEY_SUBJECT
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.screenings.installation import Installation

SCREENING_FILE: Final = "screening.zip"


def write_file(path: Path, data: bytes) -> Path:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.replace(path)
    return path


def statement_of(envelope: bytes) -> dict[str, Any]:
    """The statement in an envelope of ours; its signature is not checked here."""
    opened = dsse.decode(envelope, dsse.STATEMENT_TYPE, len(envelope))
    statement: dict[str, Any] = canonical.decode_strict(opened.payload)
    return statement


def predicate_of(stored: StoredCertificate) -> dict[str, Any]:
    """The signed content of a statement of ours."""
    content: dict[str, Any] = statement_of(stored.envelope)["predicate"]
    return content


def write_screening_bundle(installation: Installation, screening_id: str, summary: bytes | None) -> Path:
    """The one file a reader needs: opening, every certificate in plan order, summary, notices."""
    raw = screening_bundle(installation, screening_id, summary)
    return write_file(installation.home.certificates / screening_id / SCREENING_FILE, raw)


def screening_bundle(installation: Installation, screening_id: str, summary: bytes | None) -> bytes:
    """The bytes of a screening bundle, as of now; `summary` is the signed one, None while there is none."""
    stored = certificates(installation.ledger, screening_id)
    opening = next(one for one in stored if one.kind is CertificateKind.OPENING)
    order = {entry["taskId"]: place for place, entry in enumerate(predicate_of(opening)["plan"])}
    tries = []
    for one in stored:
        if one.kind is CertificateKind.TRY:
            body = predicate_of(one)
            slot = body["try"]
            tries.append(((order[body["task"]["id"]], slot["index"], slot["attempt"]), one))
    tries.sort(key=lambda item: item[0])
    logbook = installation.logbook()
    envelopes = [opening.envelope, *(one.envelope for _, one in tries), *([summary] if summary else [])]
    if logbook is not None and len(installation.trust_root().logs) > 1:
        envelopes = logbook.renewed(envelopes)
    if summary is not None:
        summary = envelopes.pop()
    bundles = [_try_bundle(installation, envelope) for envelope in envelopes[1:]]
    # Looked up first: what is logged in between is beyond the size that the list names.
    notices = listed_notices(installation, envelopes)
    proofs = None if logbook is None else _proofs(logbook, envelopes, summary)
    chain = installation.roots.chain()
    return bundle.encode_screening(envelopes[0], bundles, summary, proofs, notices, chain)


def _proofs(logbook: Logbook, envelopes: list[bytes], summary: bytes | None) -> bundle.ScreeningProofs:
    """Where everything is logged, under one checkpoint; `envelopes` are the opening and the tries."""
    names = ["opening", *(f"{number:06d}" for number in range(1, len(envelopes)))]
    if summary is not None:
        envelopes, names = [*envelopes, summary], [*names, "summary"]
    found = logbook.prove(envelopes)
    members = {name: one.without_checkpoint() for name, one in zip(names, found, strict=True)}
    return bundle.ScreeningProofs(found[0].checkpoint, members)


def listed_notices(installation: Installation, envelopes: Sequence[bytes]) -> bundle.NoticeList | None:
    """All notices about logged statements of one log (and their openings and keys), with their proofs.

    None under a trust root without logs. Raises `CertificateError` where the home's own log has a notice
    that cannot be read.
    """
    logbook = installation.logbook()
    if logbook is None:
        return None
    root = installation.trust_root()
    keyids, subjects, origin = set[str](), set[str](), ""
    for envelope in envelopes:
        keyid, entry = entry_of(envelope, root)
        keyids.add(keyid)
        subjects.add(entry.split(b"\n")[1].decode())
        screening = statement_of(envelope)["predicate"].get("screening") or {}
        subjects.add(screening.get("openingDigest", {}).get("sha256", ""))
        origin = root.keys[keyid].log or ""
    seen = PublishedNotices(installation.home.log).read(root, origin, 0)
    if seen is None:
        raise CertificateError(f"the log {origin} of this home is not there")
    if seen.unreadable:
        log, index, why = seen.unreadable[0]
        raise CertificateError(f"entry {index} of {log} is a notice that cannot be read: {why}")
    items = []
    for one in seen.notices:
        if one.subject in subjects or (one.about == KEY_SUBJECT and one.subject[:32] in keyids):
            path = logbook.folder(one.log or "") / statement_path(one.digest)
            envelope = path.read_bytes()
            items.append(bundle.ListedNotice(envelope, logbook.prove([envelope])[0].encode()))
    return bundle.NoticeList(seen.sizes[origin], tuple(items))


def _try_bundle(installation: Installation, envelope: bytes) -> bytes:
    subject = statement_of(envelope)["subject"][0]["digest"]["sha256"]
    manifest = installation.store.read(subject, MANIFEST_LIMIT_BYTES)
    return bundle.encode_try(envelope, manifest)
