"""What is read from the ledger: status, tries, attempts, prefixes, what is left to certify."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute

from orchestrator.errors import NotFoundError
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import (
    Attempt,
    Certificate,
    Event,
    Evidence,
    Screening,
    SpendEntry,
    TrySlot,
)
from orchestrator.ledger.states import OPEN_SLOTS, AttemptState, ScreeningState, SlotState
from scoring.vocabulary import Outcome

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class Status:
    """Where a screening stands; money in nano-USD, `void` counts attempts, the rest slots."""

    screening_id: str
    state: str
    slots: Mapping[SlotState, int]
    outcomes: Mapping[Outcome, int]
    reruns: int
    interruptions: int
    used_nusd: int
    reserved_nusd: int
    cap_nusd: int | None
    platform_nusd: int

    @property
    def total(self) -> int:
        """All planned tries."""
        return sum(self.slots.values())

    @property
    def open(self) -> int:
        """Tries that have not come to their end."""
        return sum(self.slots[state] for state in OPEN_SLOTS)


def status(ledger: Ledger, screening_id: str) -> Status:
    """Counts by state and outcome: one grouped query over one index, plus two single-row reads."""
    counts = (
        sa.select(
            TrySlot.state,
            TrySlot.outcome,
            sa.func.count().label("n"),
            sa.func.sum(TrySlot.reruns).label("reruns"),
            sa.func.sum(TrySlot.interruptions).label("interruptions"),
        )
        .where(TrySlot.screening_id == screening_id)
        .group_by(TrySlot.state, TrySlot.outcome)
    )
    paid = sa.select(sa.func.coalesce(sa.func.sum(SpendEntry.nusd), 0)).where(
        SpendEntry.screening_id == screening_id, SpendEntry.payer == "platform"
    )
    with ledger.reading() as connection:
        head = connection.execute(
            sa.select(
                Screening.state, Screening.used_nusd, Screening.reserved_nusd, Screening.cap_nusd
            ).where(Screening.id == screening_id)
        ).first()
        if head is None:
            raise NotFoundError(f"there is no screening {screening_id}")
        rows = connection.execute(counts).all()
        platform_nusd = int(connection.scalar(paid) or 0)
    slots = dict.fromkeys(SlotState, 0)
    outcomes = dict.fromkeys(Outcome, 0)
    for row in rows:
        slots[SlotState(row.state)] += row.n
        if row.outcome is not None:
            outcomes[Outcome(row.outcome)] += row.n
    return Status(
        screening_id=screening_id,
        state=head.state,
        slots=slots,
        outcomes=outcomes,
        reruns=sum(int(row.reruns) for row in rows),
        interruptions=sum(int(row.interruptions) for row in rows),
        used_nusd=head.used_nusd,
        reserved_nusd=head.reserved_nusd,
        cap_nusd=head.cap_nusd,
        platform_nusd=platform_nusd,
    )


def _columns(row: Any) -> dict[str, Any]:
    return {str(name): value for name, value in row._mapping.items()}


def screening(ledger: Ledger, screening_id: str) -> Mapping[str, Any]:
    """All columns of one screening; raises `NotFoundError`."""
    with ledger.reading() as connection:
        row = connection.execute(
            sa.select(*Screening.__table__.columns).where(Screening.id == screening_id)
        ).first()
    if row is None:
        raise NotFoundError(f"there is no screening {screening_id}")
    return _columns(row)


def states_of(ledger: Ledger, screening_ids: Sequence[str]) -> dict[str, ScreeningState]:
    """The state of each screening that there is, by id."""
    query = sa.select(Screening.id, Screening.state).where(Screening.id.in_(screening_ids))
    with ledger.reading() as connection:
        return {row.id: ScreeningState(row.state) for row in connection.execute(query)}


def screenings(ledger: Ledger, *, identity: str | None = None) -> list[Mapping[str, Any]]:
    """All screenings (of one identity), newest first."""
    query = sa.select(*Screening.__table__.columns).order_by(Screening.created_ms.desc(), Screening.id.desc())
    if identity is not None:
        query = query.where(Screening.identity == identity)
    with ledger.reading() as connection:
        return [_columns(row) for row in connection.execute(query)]


@dataclass(frozen=True)
class AttemptView:
    """One physical run: every column of `attempt`, its evidence, certificate and spend."""

    row: Mapping[str, Any]
    manifest_digest: str | None
    certificate_digest: str | None
    spend: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TryView:
    """One slot with all its attempts, oldest first (`attempts` is empty in listings)."""

    row: Mapping[str, Any]
    attempts: tuple[AttemptView, ...] = field(default=())


def tries(
    ledger: Ledger,
    screening_id: str,
    *,
    state: SlotState | None = None,
    outcome: Outcome | None = None,
    task_id: str | None = None,
) -> list[TryView]:
    """The slots of a screening by task and index, without their attempts."""
    query = sa.select(*TrySlot.__table__.columns).where(TrySlot.screening_id == screening_id)
    if state is not None:
        query = query.where(TrySlot.state == state)
    if outcome is not None:
        query = query.where(TrySlot.outcome == outcome)
    if task_id is not None:
        query = query.where(TrySlot.task_id == task_id)
    with ledger.reading() as connection:
        rows = connection.execute(query.order_by(TrySlot.task_id, TrySlot.k)).all()
    return [TryView(_columns(row)) for row in rows]


def now_ms(ledger: Ledger) -> int:
    """The database's time, Unix milliseconds."""
    with ledger.reading() as connection:
        return ledger.clock(connection)


def _attempts() -> sa.Select[Any]:
    return (
        sa.select(
            *Attempt.__table__.columns,
            Evidence.manifest_digest,
            Certificate.digest.label("certificate_digest"),
        )
        .outerjoin(Evidence, Evidence.attempt_id == Attempt.id)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
    )


# Asked at every try, and dearer to put together than to run.
_SLOT: Final = sa.select(*TrySlot.__table__.columns).where(TrySlot.id == sa.bindparam("slot"))
_ATTEMPTS_OF: Final = _attempts().where(Attempt.slot_id == sa.bindparam("slot")).order_by(Attempt.token)
_SPENT: Final = sa.select(SpendEntry.attempt_id, SpendEntry.payer, SpendEntry.nusd).order_by(SpendEntry.id)
_SPENT_OF: Final = _SPENT.join(Attempt, Attempt.id == SpendEntry.attempt_id).where(
    Attempt.slot_id == sa.bindparam("slot")
)
_ATTEMPT: Final = _attempts().where(Attempt.id == sa.bindparam("attempt"))
_SPENT_BY: Final = _SPENT.where(SpendEntry.attempt_id == sa.bindparam("attempt"))


def show_try(ledger: Ledger, slot_id: str) -> TryView:
    """One slot with every attempt ever made of it; raises `NotFoundError`."""
    asked = {"slot": slot_id}
    with ledger.reading() as connection:
        slot = connection.execute(_SLOT, asked).first()
        if slot is None:
            raise NotFoundError(f"there is no try {slot_id}")
        rows = connection.execute(_ATTEMPTS_OF, asked).all()
        paid = connection.execute(_SPENT_OF, asked).all()
    return TryView(_columns(slot), tuple(_view(row, paid) for row in rows))


def show_attempt(ledger: Ledger, attempt_id: str) -> AttemptView:
    """One attempt; raises `NotFoundError`."""
    asked = {"attempt": attempt_id}
    with ledger.reading() as connection:
        row = connection.execute(_ATTEMPT, asked).first()
        paid = connection.execute(_SPENT_BY, asked).all()
    if row is None:
        raise NotFoundError(f"there is no attempt {attempt_id}")
    return _view(row, paid)


def _view(row: Any, paid: Iterable[Any]) -> AttemptView:
    columns = {name: row._mapping[name] for name in Attempt.__table__.columns.keys()}  # noqa: SIM118
    spend = tuple((entry.payer, entry.nusd) for entry in paid if entry.attempt_id == row.id)
    return AttemptView(columns, row.manifest_digest, row.certificate_digest, spend)


def manifests(ledger: Ledger, screening_id: str) -> dict[str, str]:
    """The manifest digest of the newest attempt with evidence, by slot."""
    query = (
        sa.select(Attempt.slot_id, Evidence.manifest_digest)
        .join(Evidence, Evidence.attempt_id == Attempt.id)
        .join(TrySlot, TrySlot.id == Attempt.slot_id)
        .where(TrySlot.screening_id == screening_id)
        .order_by(Attempt.token)
    )
    with ledger.reading() as connection:
        return {row.slot_id: row.manifest_digest for row in connection.execute(query)}


def certifiable(ledger: Ledger, screening_ids: Iterable[str] | None = None) -> list[str]:
    """Attempts that ended with an outcome and have no certificate, by slot order and attempt.

    Attempts that an operator stopped have no outcome and are never certified.
    """
    query = (
        sa.select(Attempt.id)
        .join(TrySlot, TrySlot.id == Attempt.slot_id)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.outcome.is_not(None), Certificate.id.is_(None))
        .order_by(TrySlot.screening_id, TrySlot.start_order, Attempt.token)
    )
    if screening_ids is not None:
        query = query.where(Attempt.screening_id.in_(list(screening_ids)))
    with ledger.reading() as connection:
        return list(connection.scalars(query))


def start_hours(ledger: Ledger, screening_id: str) -> dict[int, int]:
    """Realised starts: hour of the day (UTC, 0 to 23) -> attempts claimed in it, void ones included."""
    with ledger.reading() as connection:
        starts = connection.scalars(sa.select(Attempt.claimed_ms).where(Attempt.screening_id == screening_id))
        hours = dict.fromkeys(range(24), 0)
        for start in starts:
            hours[start // _HOUR_MS % 24] += 1
    return {hour: count for hour, count in hours.items() if count}


def history(ledger: Ledger, screening_id: str, slot_id: str | None = None) -> list[Mapping[str, Any]]:
    """The events of a screening (of one slot), oldest first."""
    query = sa.select(*Event.__table__.columns).where(Event.screening_id == screening_id).order_by(Event.id)
    if slot_id is not None:
        query = query.where(Event.slot_id == slot_id)
    with ledger.reading() as connection:
        return [_columns(row) for row in connection.execute(query)]


def find_screening(ledger: Ledger, prefix: str) -> str:
    """The one screening whose id begins with `prefix` (any case); raises `NotFoundError`."""
    return _find(ledger, Screening.id, "screening", "assize status", prefix)


def find_try(ledger: Ledger, prefix: str) -> str:
    """The one slot whose id begins with `prefix` (any case); raises `NotFoundError`."""
    return _find(ledger, TrySlot.id, "try", "assize tries", prefix)


def find_attempt(ledger: Ledger, prefix: str) -> str:
    """The one attempt whose id begins with `prefix` (any case); raises `NotFoundError`."""
    return _find(ledger, Attempt.id, "attempt", "assize try", prefix)


def _find(ledger: Ledger, column: InstrumentedAttribute[str], noun: str, listing: str, prefix: str) -> str:
    first = prefix.strip().upper()
    if not first or not first.isalnum() or not first.isascii():
        raise NotFoundError(f"{prefix!r} is no {noun} id", hint=f"`{listing}` lists them")
    # A range and not LIKE: it uses the primary key's index on both databases. "~" is above every ULID letter.
    query = sa.select(column).where(column >= first, column < first + "~").order_by(column).limit(4)
    with ledger.reading() as connection:
        found = list(connection.scalars(query))
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(f"there is no {noun} {prefix}", hint=f"`{listing}` lists them")
    shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
    raise NotFoundError(
        f"{prefix} is the beginning of several ids: {shown}", hint="give more letters of the id"
    )


@dataclass(frozen=True)
class Outlook:
    """What is left to do, for an engine that found nothing to claim."""

    waiting: int
    running: int
    next_start_ms: int | None


def outlook(ledger: Ledger, screening_ids: Iterable[str]) -> Outlook:
    """Open slots of the running screenings among `screening_ids`, and the earliest start among them."""
    query = (
        sa.select(TrySlot.state, sa.func.count(), sa.func.min(TrySlot.not_before_ms))
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(
            TrySlot.screening_id.in_(list(screening_ids)),
            TrySlot.state.in_(OPEN_SLOTS),
            sa.or_(Screening.state == "running", TrySlot.state == SlotState.RUNNING),
        )
        .group_by(TrySlot.state)
    )
    waiting, running, starts = 0, 0, []
    with ledger.reading() as connection:
        for state, count, first in connection.execute(query):
            if state == SlotState.RUNNING:
                running += count
            else:
                waiting += count
                starts.append(first)
    return Outlook(waiting, running, min(starts, default=None))


def live_attempts(ledger: Ledger) -> list[tuple[str, int, str]]:
    """(attempt id, lease end in ms, owner id) of every live attempt; what a reaper watches."""
    query = sa.select(Attempt.id, Attempt.lease_until_ms, Attempt.owner_id).where(
        Attempt.state == AttemptState.LIVE
    )
    with ledger.reading() as connection:
        return [(row.id, row.lease_until_ms, row.owner_id) for row in connection.execute(query)]
