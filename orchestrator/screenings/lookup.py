"""Which certificate, screening or key a person means: by digest, by id, by try."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import NotFoundError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates, find_certificates
from orchestrator.screenings.bundling import predicate_of
from orchestrator.screenings.private import require_public

_DIGEST: Final = re.compile(r"[0-9a-f]{6,64}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


@dataclass(frozen=True)
class Meant:
    """A screening, and one of its certificates where that is meant."""

    screening_id: str
    certificate: StoredCertificate | None = None


def find(ledger: Ledger, wanted: str, attempt: int | None = None) -> Meant:
    """What `wanted` means: a digest or the id of a certificate, a try (its newest certified attempt, or the
    one numbered `attempt`), an attempt, or a screening; unique beginnings will do.

    Raises `NotFoundError`, and `PrivateError` for what is of a private screening.
    """
    found = _by_digest(ledger, wanted) or _by_try(ledger, wanted, attempt) or _by_screening(ledger, wanted)
    if found is None and _ULID.fullmatch(wanted.upper()):
        found = _by_own_id(ledger, wanted.upper())
    if found is None:
        raise NotFoundError(
            f"there is no certificate, try or screening {wanted}",
            hint="`assize tries SCREENING` and `assize status` list them; give more letters of the id",
        )
    return found


def _by_digest(ledger: Ledger, wanted: str) -> Meant | None:
    if not _DIGEST.fullmatch(wanted):
        return None
    found = find_certificates(ledger, digest=wanted, at_most=2)
    if len(found) > 1:
        raise NotFoundError(f"{wanted} is the beginning of several digests", hint="give more of its digits")
    return Meant(found[0].screening_id, found[0]) if found else None


def _by_try(ledger: Ledger, wanted: str, attempt: int | None) -> Meant | None:
    try:
        slot_id = queries.find_try(ledger, wanted)
    except NotFoundError:
        return _by_attempt(ledger, wanted)
    view = queries.show_try(ledger, slot_id)
    require_public(ledger, view.row["screening_id"])
    numbers = {one.row["id"]: one.row["number"] for one in view.attempts}
    stored = [
        one
        for one in find_certificates(ledger, slot_id=slot_id)
        if attempt is None or numbers.get(one.attempt_id or "") == attempt
    ]
    if not stored:
        which = "" if attempt is None else f" of attempt {attempt}"
        raise NotFoundError(f"try {slot_id} has no certificate{which} yet", hint=f"assize try {slot_id}")
    return Meant(view.row["screening_id"], stored[-1])


def _by_attempt(ledger: Ledger, wanted: str) -> Meant | None:
    try:
        attempt_id = queries.find_attempt(ledger, wanted)
    except NotFoundError:
        return None
    row = queries.show_attempt(ledger, attempt_id).row
    require_public(ledger, row["screening_id"])
    stored = find_certificates(ledger, attempt_id=attempt_id)
    if not stored:
        raise NotFoundError(f"attempt {attempt_id} has no certificate yet", hint="assize status SCREENING")
    return Meant(row["screening_id"], stored[0])


def _by_screening(ledger: Ledger, wanted: str) -> Meant | None:
    try:
        screening_id = queries.find_screening(ledger, wanted)
    except NotFoundError:
        return None
    require_public(ledger, screening_id)
    return Meant(screening_id)


def _by_own_id(ledger: Ledger, wanted: str) -> Meant | None:
    """By the id inside a statement, which no column has."""
    for row in queries.screenings(ledger):
        for one in certificates(ledger, row["id"]):
            body = predicate_of(one)
            if wanted in (body.get("certificateId"), body.get("statementId")):
                return Meant(one.screening_id, one)
    return None


def opening_of(ledger: Ledger, screening_id: str) -> StoredCertificate:
    """The opening of a screening; raises `NotFoundError` for one that has none yet."""
    found = certificates(ledger, screening_id, CertificateKind.OPENING)
    if not found:
        raise NotFoundError(
            f"screening {screening_id} was never opened", hint=f"assize status {screening_id}"
        )
    return found[0]
