"""The files that carry the certificates of a screening."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import bundle, dsse
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.logbook import entry_of
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.schema import KEY_SUBJECT
from orchestrator.certificates.trust import TrustRoot
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.log.proof import TlogProof
from orchestrator.screenings.installation import Installation

SCREENING_FILE: Final = "screening.zip"


def write_file(path: Path, data: bytes) -> Path:
    """Write a file whole or not at all; two processes at once write one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        os.close(folder)
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
    envelopes = [opening.envelope, *(one.envelope for _, one in tries), *([summary] if summary else [])]
    logbook = installation.logbook()
    if logbook is not None:
        envelopes = logbook.renewed(envelopes)
    members = envelopes[: 1 + len(tries)]
    names = ["opening", *(f"{number:06d}" for number in range(1, len(members))), "summary"]
    found = proven(installation, envelopes, members)
    return bundle.encode_screening(
        members[0],
        [_try_bundle(installation, envelope) for envelope in members[1:]],
        envelopes[-1] if summary else None,
        None if found is None else bundle.ScreeningProofs.joined(names[: len(envelopes)], found.proofs),
        None if found is None else found.notices,
        installation.roots.chain(),
    )


@dataclass(frozen=True)
class Proven:
    """Proofs of logged statements in their order, and the list of all notices about them."""

    proofs: Sequence[TlogProof]
    notices: bundle.NoticeList


def proven(
    installation: Installation, envelopes: Sequence[bytes], members: Sequence[bytes] | None = None
) -> Proven | None:
    """Prove statements, and all notices about `members` of them (default: all), their openings and keys.

    Everything of one log is proven against one checkpoint, so that a verifier has nothing to reconcile: a
    notice that witnesses did not see yet leaves the whole bundle without them. None under a trust root
    without logs. Raises `CertificateError` where the home's own log has a notice that cannot be read.
    """
    logbook = installation.logbook()
    if logbook is None:
        return None
    root = installation.trust_root()
    own = {root.keys[entry_of(envelope, root)[0]].log for envelope in envelopes}
    origin = next(name for name in reversed(list(root.logs)) if name in own)
    # Looked up first: what is logged in between is beyond the size that the list names.
    seen = PublishedNotices(installation.home.log).read(root, origin, 0)
    if seen is None:
        raise CertificateError(f"the log {origin} of this home is not there")
    if seen.unreadable:
        log, index, why = seen.unreadable[0]
        raise CertificateError(f"entry {index} of {log} is a notice that cannot be read: {why}")
    subjects, keyids = _subjects(envelopes if members is None else members, root)
    notices = [
        (logbook.folder(one.log or "") / statement_path(one.digest)).read_bytes()
        for one in seen.notices
        if one.subject in subjects or (one.about == KEY_SUBJECT and one.subject[:32] in keyids)
    ]
    found = logbook.prove([*envelopes, *notices])
    proofs, more = found[: len(envelopes)], found[len(envelopes) :]
    heads = [one.checkpoint.split(b"\n")[:2] for one in proofs]
    through = min(seen.sizes[origin], *(int(size) for name, size in heads if name.decode() == origin))
    items = [
        bundle.ListedNotice(envelope, proof.encode()) for envelope, proof in zip(notices, more, strict=True)
    ]
    return Proven(proofs, bundle.NoticeList(through, tuple(items)))


def _subjects(envelopes: Sequence[bytes], root: TrustRoot) -> tuple[set[str], set[str]]:
    """The digests and the ids of keys that notices about these statements may have as their subjects."""
    subjects, keyids = set[str](), set[str]()
    for envelope in envelopes:
        keyid, entry = entry_of(envelope, root)
        keyids.add(keyid)
        subjects.add(entry.split(b"\n")[1].decode())
        screening = statement_of(envelope)["predicate"].get("screening") or {}
        subjects.add(screening.get("openingDigest", {}).get("sha256", ""))
    return subjects, keyids


def _try_bundle(installation: Installation, envelope: bytes) -> bytes:
    subject = statement_of(envelope)["subject"][0]["digest"]["sha256"]
    manifest = installation.store.read(subject, MANIFEST_LIMIT_BYTES)
    return bundle.encode_try(envelope, manifest)
