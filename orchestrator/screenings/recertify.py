"""Certifying again after a key was revoked: the same statements, by the new key, in the log that is open.

A log has one entry per place for ever, so what a revoked key had entered keeps its place in the old log, and
a new one is needed (`assize keys new-log`). A statement is signed again only after the signer has gone
through its evidence again. Its content and so its digest stay the same: what names it goes on to name it,
and a summary goes on to list it. What the key had entered before it was doubtful stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.certificates import bundle, schema
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.notice_statement import NoticePredicate
from orchestrator.certificates.statements import (
    OpeningPredicate,
    Predicate,
    Statement,
    SummaryPredicate,
    TryPredicate,
)
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.screenings.bundling import statement_of, write_file, write_screening_bundle
from orchestrator.screenings.installation import Installation

_MODELS: Final[dict[str, type[Predicate]]] = {
    schema.OPENING: OpeningPredicate,
    schema.TRY: TryPredicate,
    schema.SUMMARY: SummaryPredicate,
    schema.NOTICE: NoticePredicate,
}


@dataclass(frozen=True)
class Recertified:
    """How many statements of a screening were certified again, and the bundle that carries all of it."""

    screening: str
    statements: int
    bundle: Path


def statement_from(envelope: bytes) -> Statement:
    """The statement in an envelope of ours, to be signed again."""
    data = statement_of(envelope)
    model = _MODELS.get(data["predicateType"].removeprefix(schema.PREFIX))
    if model is None:
        raise CertificateError(f"a {data['predicateType']} is not certified again")
    return Statement(
        data["subject"][0]["digest"]["sha256"], model.model_validate(data["predicate"], strict=False)
    )


def recertify(installation: Installation, screening_id: str) -> Recertified:
    """Sign and log again what does not hold any more; again is harmless, and finishes what was stopped.

    Raises `SigningRefusedError` where the evidence does not hold any more, `LogConflictError` while the log
    that is open is the one in which the old signatures have their places.
    """
    logbook, signer = installation.logbook(), installation.signer()
    if logbook is None:
        raise CertificateError("this trust root lists no log", hint="there is nothing to certify again")
    stored = certificates(installation.ledger, screening_id)
    doubtful = [one for one in stored if logbook.is_void(one.envelope)]
    for one in doubtful:
        signed = signer.sign(statement_from(one.envelope))
        if signed.digest != one.digest:
            raise CertificateError(
                f"certificate {one.id} would change its content", hint="it is left as it is"
            )
        logbook.enter(signed.envelope)
        if one.kind is CertificateKind.TRY and one.path is not None:
            proof = logbook.prove([signed.envelope])[0].encode()
            raw = bundle.encode_try(
                signed.envelope, signed.manifest or b"", proof, chain=installation.roots.chain()
            )
            write_file(installation.home.root / one.path, raw)
    path = write_screening_bundle(installation, screening_id, _summary(stored))
    return Recertified(screening_id, len(doubtful), path)


def renew_notice(installation: Installation, envelope: bytes) -> str:
    """Sign and log a notice again; its digest. A notice of a revoked key holds for nobody: a pass that it
    withdrew would count again."""
    logbook, signer = installation.logbook(), installation.signer()
    if logbook is None:
        raise CertificateError("this trust root lists no log", hint="there is nothing to certify again")
    signed = signer.sign(statement_from(envelope))
    logbook.enter(signed.envelope)
    return signed.digest


def _summary(stored: list[StoredCertificate]) -> bytes | None:
    return next((one.envelope for one in stored if one.kind is CertificateKind.SUMMARY), None)
