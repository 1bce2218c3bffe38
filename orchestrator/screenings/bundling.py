"""The files that carry the certificates of a screening."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import bundle, dsse
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
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
    """The one file a reader needs: opening, every certificate in plan order, summary."""
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
    bundles = [_try_bundle(installation, one) for _, one in tries]
    envelopes = [opening.envelope, *(one.envelope for _, one in tries)]
    proofs = _proofs(installation, envelopes, summary)
    raw = bundle.encode_screening(opening.envelope, bundles, summary, proofs)
    return write_file(installation.home.certificates / screening_id / SCREENING_FILE, raw)


def _proofs(
    installation: Installation, envelopes: list[bytes], summary: bytes | None
) -> bundle.ScreeningProofs | None:
    """Where everything is logged, under one checkpoint per log; `envelopes` are the opening and the tries."""
    logbook = installation.logbook()
    if logbook is None:
        return None
    names = ["opening", *(f"{number:06d}" for number in range(1, len(envelopes)))]
    if summary is not None:
        envelopes, names = [*envelopes, summary], [*names, "summary"]
    return bundle.ScreeningProofs.joined(names, logbook.prove(envelopes))


def _try_bundle(installation: Installation, stored: StoredCertificate) -> bytes:
    subject = statement_of(stored.envelope)["subject"][0]["digest"]["sha256"]
    manifest = installation.store.read(subject, MANIFEST_LIMIT_BYTES)
    return bundle.encode_try(stored.envelope, manifest)
