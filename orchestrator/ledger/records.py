"""Certificates and admission checks: append-only rows that others produce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa

from orchestrator.ids import new_id
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Attempt, Certificate, PackCheck, Screening, TrySlot
from orchestrator.ledger.retry import retried


class CertificateKind(StrEnum):
    """Which statement a certificate carries."""

    OPENING = "opening"
    TRY = "try"
    SUMMARY = "summary"


@dataclass(frozen=True)
class StoredCertificate:
    """One row of `certificate`; `digest` is SHA-256 of the envelope bytes, `path` where a bundle lies."""

    id: str
    screening_id: str
    kind: CertificateKind
    attempt_id: str | None
    digest: str
    path: str | None
    envelope: bytes
    at_ms: int


@dataclass(frozen=True)
class TaskCheck:
    """What the admission gate found for one task in one pair of images."""

    pack_digest: str
    task_id: str
    task_digest: str
    agent_image: str
    grader_image: str
    oracle_runs: int
    oracle_passes: int
    nop_runs: int
    nop_fails: int
    stable: bool

    @property
    def proven(self) -> bool:
        """The oracle passed in every run (at least once) and grading the same twice agreed."""
        return self.oracle_runs > 0 and self.oracle_passes == self.oracle_runs and self.stable


# Asked at every try, and dearer to put together than to run.
_OF_SCREENING: Final = Certificate.screening_id == sa.bindparam("screening")
_LOCK_SCREENING: Final = (
    sa.select(Screening.id).where(Screening.id == sa.bindparam("screening")).with_for_update(key_share=True)
)
_SAME: Final = sa.select(Certificate.id).where(Certificate.digest == sa.bindparam("digest"))
_ENDED: Final = sa.select(Attempt.slot_id, Attempt.token, Attempt.outcome).where(
    Attempt.id == sa.bindparam("attempt"), Attempt.screening_id == sa.bindparam("screening")
)
_TAKEN: Final = sa.select(Certificate.id).where(_OF_SCREENING, Certificate.kind == sa.bindparam("kind"))
_TAKEN_BY_TRY: Final = sa.select(Certificate.id).where(
    _OF_SCREENING, Certificate.attempt_id == sa.bindparam("attempt")
)
_INSERT_CERTIFICATE: Final = sa.insert(Certificate)


@retried
def add_certificate(
    ledger: Ledger,
    *,
    screening_id: str,
    kind: CertificateKind,
    digest: str,
    envelope: bytes,
    who: str,
    attempt_id: str | None = None,
    path: str | None = None,
    certificate_id: str | None = None,
) -> bool:
    """Store a certificate; False when the very same one (by digest) is already there.

    Raises `LedgerError` when the attempt has not ended with an outcome, or when its place (opening,
    summary, this attempt) is taken by a different certificate.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        # Two signers at once take turns, so that the second one sees what the first one stored.
        asked = {"screening": screening_id, "attempt": attempt_id, "kind": kind, "digest": digest}
        connection.execute(_LOCK_SCREENING, asked)
        if connection.scalar(_SAME, asked):
            return False
        slot_id, token = None, None
        if kind is CertificateKind.TRY:
            found = connection.execute(_ENDED, asked).first()
            if found is None or found.outcome is None:
                raise LedgerError(f"attempt {attempt_id} has no outcome to certify")
            slot_id, token = found.slot_id, found.token
        if other := connection.scalar(_TAKEN_BY_TRY if kind is CertificateKind.TRY else _TAKEN, asked):
            raise LedgerError(f"certificate {other} already stands in the place of this {kind} certificate")
        row = {
            "id": certificate_id or new_id(now),
            "screening_id": screening_id,
            "kind": kind,
            "attempt_id": attempt_id,
            "slot_id": slot_id,
            "token": token,
            "digest": digest,
            "path": path,
            "envelope": envelope,
            "at_ms": now,
        }
        connection.execute(_INSERT_CERTIFICATE, row)
        event = event_row(now, screening_id, "certified", who, slot_id=slot_id, attempt_id=attempt_id)
        connection.execute(INSERT_EVENT, {**event, "reason": kind, "data": {"digest": digest}})
        return True


def newest_envelope(ledger: Ledger) -> bytes | None:
    """The envelope that was stored last, in whatever screening; None where nothing is certified yet.

    Ids are ULIDs, so the last one is found by the primary key.
    """
    query = sa.select(Certificate.envelope).order_by(Certificate.id.desc()).limit(1)
    with ledger.reading() as connection:
        found: bytes | None = connection.scalar(query)
    return found


def certificates(
    ledger: Ledger, screening_id: str, kind: CertificateKind | None = None
) -> list[StoredCertificate]:
    """The certificates of a screening: opening, tries by start order and attempt, summary."""
    place = sa.case({"opening": 0, "try": 1}, value=Certificate.kind, else_=2)
    query = (
        sa.select(Certificate)
        .outerjoin(TrySlot, TrySlot.id == Certificate.slot_id)
        .where(Certificate.screening_id == screening_id)
        .order_by(place, TrySlot.start_order, Certificate.token)
    ).with_only_columns(*_COLUMNS)
    if kind is not None:
        query = query.where(Certificate.kind == kind)
    with ledger.reading() as connection:
        rows = connection.execute(query).all()
    return [_stored(row) for row in rows]


def all_summarised(ledger: Ledger, screening_ids: Sequence[str]) -> bool:
    """Whether the closing statement of every one of them is signed."""
    query = sa.select(sa.func.count(sa.distinct(Certificate.screening_id))).where(
        Certificate.screening_id.in_(screening_ids), Certificate.kind == CertificateKind.SUMMARY
    )
    with ledger.reading() as connection:
        return connection.scalar(query) == len(set(screening_ids))


def find_certificates(
    ledger: Ledger,
    *,
    digest: str | None = None,
    slot_id: str | None = None,
    attempt_id: str | None = None,
    at_most: int = 100,
) -> list[StoredCertificate]:
    """Certificates whose digest begins with `digest`, of a slot by attempt, or of an attempt."""
    query = sa.select(*_COLUMNS).order_by(Certificate.token, Certificate.digest).limit(at_most)
    if digest is not None:
        # A range and not LIKE, as for ids; "~" is above every hex digit.
        query = query.where(Certificate.digest >= digest, Certificate.digest < digest + "~")
    if slot_id is not None:
        query = query.where(Certificate.slot_id == slot_id)
    if attempt_id is not None:
        query = query.where(Certificate.attempt_id == attempt_id)
    with ledger.reading() as connection:
        return [_stored(row) for row in connection.execute(query)]


_COLUMNS: Final = (
    Certificate.id,
    Certificate.screening_id,
    Certificate.kind,
    Certificate.attempt_id,
    Certificate.digest,
    Certificate.path,
    Certificate.envelope,
    Certificate.at_ms,
)


def _stored(row: Any) -> StoredCertificate:
    return StoredCertificate(
        row.id,
        row.screening_id,
        CertificateKind(row.kind),
        row.attempt_id,
        row.digest,
        row.path,
        row.envelope,
        row.at_ms,
    )


def add_pack_check(ledger: Ledger, found: TaskCheck) -> str:
    """Note one run of the admission gate; returns its id."""
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        chosen = new_id(now)
        row = {name: getattr(found, name) for name in TaskCheck.__dataclass_fields__}
        connection.execute(sa.insert(PackCheck), {"id": chosen, "at_ms": now, **row})
    return chosen


def last_pack_check(
    ledger: Ledger, *, task_digest: str, agent_image: str, grader_image: str
) -> TaskCheck | None:
    """The newest admission check of exactly this task in exactly these images."""
    columns = [getattr(PackCheck, name) for name in TaskCheck.__dataclass_fields__]
    query = (
        sa.select(*columns)
        .where(
            PackCheck.task_digest == task_digest,
            PackCheck.agent_image == agent_image,
            PackCheck.grader_image == grader_image,
        )
        .order_by(PackCheck.at_ms.desc(), PackCheck.id.desc())
        .limit(1)
    )
    with ledger.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else TaskCheck(**row._mapping)
