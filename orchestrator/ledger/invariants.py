"""The invariants of reference/distribution.md 4.6 as named queries; tests, drills and doctor run them.

A query returns what violates the invariant, one sentence each; a sound ledger returns nothing. Numbers 8
and 13 speak of the relay (`orchestrator.screenings.relay_checks`), 9 of containers (`assize doctor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.orm import aliased

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, Certificate, Event, Evidence, Screening, SpendEntry, TrySlot
from orchestrator.ledger.states import (
    CLOSED_SCREENINGS,
    OPEN_SLOTS,
    OPERATOR_CANCELLED,
    AttemptState,
    EngineName,
    ScreeningState,
    SlotState,
)
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason

SWEEP_MS: Final = 60_000
"""How often lost messages are looked for; a queued slot that nobody was told of for two is a violation."""

LEASE_MS: Final = 120_000
"""The lease of an attempt; two of them without a heartbeat are a violation."""


@dataclass(frozen=True)
class Violation:
    """One broken invariant: its number in 4.6, its name, and what is wrong with which row."""

    number: int
    name: str
    message: str


Check = Callable[[Connection, int], Iterator[str]]


def _slots_add_up(connection: Connection, _now: int) -> Iterator[str]:
    slots = sa.select(sa.func.count()).where(TrySlot.screening_id == Screening.id).scalar_subquery()
    query = sa.select(Screening.id, Screening.planned_slots, slots.label("found"))
    for row in connection.execute(query.where(Screening.planned_slots != slots)):
        yield f"screening {row.id} planned {row.planned_slots} slots and has {row.found}"
    open_slots = (
        sa.select(TrySlot.id, TrySlot.screening_id)
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(Screening.state.in_(CLOSED_SCREENINGS), TrySlot.state.in_(OPEN_SLOTS))
    )
    for row in connection.execute(open_slots):
        yield f"slot {row.id} is open in the closed screening {row.screening_id}"


def _one_of_state(connection: Connection, state: AttemptState, slot_state: SlotState) -> Iterator[str]:
    """Slots in `slot_state` have exactly one attempt in `state`, other slots none."""
    count = (
        sa.select(sa.func.count())
        .where(Attempt.slot_id == TrySlot.id, Attempt.state == state)
        .scalar_subquery()
    )
    wanted = sa.case((TrySlot.state == slot_state, 1), else_=0)
    query = sa.select(TrySlot.id, TrySlot.state, count.label("n")).where(count != wanted)
    for row in connection.execute(query):
        yield f"slot {row.id} is {row.state} and has {row.n} {state} attempts"


def _one_live(connection: Connection, _now: int) -> Iterator[str]:
    yield from _one_of_state(connection, AttemptState.LIVE, SlotState.RUNNING)


def _one_counted(connection: Connection, _now: int) -> Iterator[str]:
    yield from _one_of_state(connection, AttemptState.RECORDED, SlotState.RECORDED)


def _recorded_is_over(connection: Connection, _now: int) -> Iterator[str]:
    later = aliased(Attempt)
    query = (
        sa.select(Attempt.id, later.id.label("later"))
        .join(later, later.slot_id == Attempt.slot_id)
        .where(Attempt.state == AttemptState.RECORDED, later.token > Attempt.token)
    )
    for row in connection.execute(query):
        yield f"attempt {row.later} was started after attempt {row.id} had been recorded"


def _tokens(connection: Connection, _now: int) -> Iterator[str]:
    query = (
        sa.select(Attempt.id, Attempt.token, TrySlot.token.label("current"))
        .join(TrySlot, TrySlot.id == Attempt.slot_id)
        .where(
            sa.or_(
                Attempt.token > TrySlot.token,
                sa.and_(Attempt.state != AttemptState.VOID, Attempt.token != TrySlot.token),
            )
        )
    )
    for row in connection.execute(query):
        yield f"attempt {row.id} has token {row.token}, its slot {row.current}"
    certified = (
        sa.select(Certificate.id)
        .join(Attempt, Attempt.id == Certificate.attempt_id)
        .where(sa.or_(Certificate.token != Attempt.token, Certificate.slot_id != Attempt.slot_id))
    )
    for found in connection.scalars(certified):
        yield f"certificate {found} names another slot or token than its attempt"


def _money(connection: Connection, _now: int) -> Iterator[str]:
    reserved = (
        sa.select(sa.func.coalesce(sa.func.sum(TrySlot.reserved_nusd), 0))
        .where(TrySlot.screening_id == Screening.id)
        .scalar_subquery()
    )
    used = (
        sa.select(sa.func.coalesce(sa.func.sum(SpendEntry.nusd), 0))
        .where(SpendEntry.screening_id == Screening.id, SpendEntry.payer == "agent")
        .scalar_subquery()
    )
    query = sa.select(
        Screening.id, Screening.used_nusd, Screening.reserved_nusd, reserved.label("held"), used.label("paid")
    ).where(
        sa.or_(
            Screening.reserved_nusd != reserved,
            Screening.used_nusd != used,
            Screening.used_nusd + Screening.reserved_nusd > Screening.cap_nusd,
        )
    )
    for row in connection.execute(query):
        yield (
            f"screening {row.id}: used {row.used_nusd} (entries {row.paid}),"
            f" reserved {row.reserved_nusd} (slots {row.held}) nano-USD"
        )


def _payers(connection: Connection, _now: int) -> Iterator[str]:
    query = (
        sa.select(SpendEntry.id, SpendEntry.payer, Attempt.state)
        .join(Attempt, Attempt.id == SpendEntry.attempt_id)
        .where(
            sa.or_(
                Attempt.state == AttemptState.LIVE,
                sa.and_(Attempt.state == AttemptState.VOID, SpendEntry.payer == "agent"),
                SpendEntry.screening_id != Attempt.screening_id,
            )
        )
    )
    for row in connection.execute(query):
        yield f"spend entry {row.id} of a {row.state} attempt is booked to the {row.payer}"


def _reruns(connection: Connection, _now: int) -> Iterator[str]:
    faults = (
        sa.select(sa.func.count())
        .where(Attempt.slot_id == TrySlot.id, Attempt.outcome == Outcome.PLATFORM_FAULT)
        .scalar_subquery()
    )
    last = sa.case((TrySlot.outcome == Outcome.PLATFORM_FAULT, 1), else_=0)
    query = (
        sa.select(TrySlot.id, TrySlot.reruns, faults.label("faults"))
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(sa.or_(TrySlot.reruns > Screening.rerun_limit, faults != TrySlot.reruns + last))
    )
    for row in connection.execute(query):
        yield f"slot {row.id} counts {row.reruns} re-runs and has {row.faults} platform faults"
    unexplained = sa.select(Attempt.id).where(
        Attempt.state == AttemptState.VOID,
        Attempt.reason != OPERATOR_CANCELLED,
        sa.or_(Attempt.outcome.is_(None), Attempt.rule.is_(None), Attempt.details.is_(None)),
    )
    for found in connection.scalars(unexplained):
        yield f"void attempt {found} lacks its fault class or its evidence"


def _leases(connection: Connection, now: int) -> Iterator[str]:
    query = sa.select(Attempt.id, Attempt.lease_until_ms).where(
        Attempt.state == AttemptState.LIVE, Attempt.lease_until_ms < now - 2 * LEASE_MS
    )
    for row in connection.execute(query):
        yield f"the lease of attempt {row.id} ran out {(now - row.lease_until_ms) // 1000} s ago"


def _messages(connection: Connection, now: int) -> Iterator[str]:
    """Only of campaigns on many hosts: on one machine no message is sent."""
    before = now - 2 * SWEEP_MS
    query = (
        sa.select(TrySlot.id, TrySlot.queue, TrySlot.not_before_ms, TrySlot.updated_ms)
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(
            Screening.engine == EngineName.CELERY,
            Screening.state == ScreeningState.RUNNING,
            Screening.stop_reason.is_(None),
            TrySlot.state == SlotState.QUEUED,
            TrySlot.sent_ms.is_(None),
            TrySlot.not_before_ms < before,
            TrySlot.updated_ms < before,
        )
    )
    for row in connection.execute(query):
        told = (now - max(row.not_before_ms, row.updated_ms)) // 1000
        yield f"slot {row.id} of {row.queue} is queued for {told} s and no worker was told of it"


def _certificates(connection: Connection, _now: int) -> Iterator[str]:
    premature = (
        sa.select(Certificate.id)
        .join(Attempt, Attempt.id == Certificate.attempt_id)
        .where(sa.or_(Attempt.outcome.is_(None), Certificate.screening_id != Attempt.screening_id))
    )
    for found in connection.scalars(premature):
        yield f"certificate {found} stands for an attempt without an outcome"
    summary = aliased(Certificate)
    absent = (
        sa.select(Attempt.id)
        .join(summary, sa.and_(summary.screening_id == Attempt.screening_id, summary.kind == "summary"))
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.outcome.is_not(None), Certificate.id.is_(None))
    )
    for found in connection.scalars(absent):
        yield f"attempt {found} has no certificate although its screening has a summary"
    opening = aliased(Certificate)
    early = (
        sa.select(Attempt.id)
        .join(opening, sa.and_(opening.screening_id == Attempt.screening_id, opening.kind == "opening"))
        .where(Attempt.claimed_ms < opening.at_ms)
    )
    for found in connection.scalars(early):
        yield f"attempt {found} started before the opening statement was stored"


def _outcomes_stand(connection: Connection, _now: int) -> Iterator[str]:
    """The row must say what the history said when it ended; every ended attempt ended exactly once."""
    ends = (
        sa.select(Event.attempt_id, sa.func.count().label("n"), sa.func.min(Event.reason).label("reason"))
        .where(Event.kind == "ended")
        .group_by(Event.attempt_id)
        .subquery()
    )
    query = (
        sa.select(Attempt.id, Attempt.state, Attempt.reason, ends.c.n, ends.c.reason.label("told"))
        .outerjoin(ends, ends.c.attempt_id == Attempt.id)
        .where(
            sa.or_(
                sa.and_(Attempt.state == AttemptState.LIVE, ends.c.n.is_not(None)),
                sa.and_(
                    Attempt.state != AttemptState.LIVE,
                    sa.or_(ends.c.n.is_(None), ends.c.n != 1, ends.c.reason != Attempt.reason),
                ),
            )
        )
    )
    for row in connection.execute(query):
        yield f"attempt {row.id} is {row.state} ({row.reason}), its history: {row.n or 0} ends ({row.told})"
    pairs = (
        sa.select(Attempt.id, Attempt.outcome, Attempt.reason).where(Attempt.outcome.is_not(None)).distinct()
    )
    for row in connection.execute(pairs):
        if row.reason not in set(Reason) or OUTCOME_OF[Reason(row.reason)] != row.outcome:
            yield f"attempt {row.id} is {row.outcome} for the reason {row.reason}"
    differing = (
        sa.select(TrySlot.id)
        .join(Attempt, sa.and_(Attempt.slot_id == TrySlot.id, Attempt.token == TrySlot.token))
        .where(
            TrySlot.outcome.is_not(None),
            sa.or_(Attempt.outcome != TrySlot.outcome, Attempt.reason != TrySlot.reason),
        )
    )
    for found in connection.scalars(differing):
        yield f"slot {found} has another outcome than its last attempt"


def _evidence(connection: Connection, _now: int) -> Iterator[str]:
    without = (
        sa.select(Attempt.id)
        .outerjoin(Evidence, Evidence.attempt_id == Attempt.id)
        .where(Attempt.state == AttemptState.RECORDED, Evidence.attempt_id.is_(None))
    )
    for found in connection.scalars(without):
        yield f"recorded attempt {found} has no evidence"


CHECKS: Final[tuple[tuple[int, str, Check], ...]] = (
    (1, "planned = recorded + uncountable + cancelled + open", _slots_add_up),
    (2, "one live attempt per running slot", _one_live),
    (3, "one counted attempt per recorded slot", _one_counted),
    (4, "nothing starts after a record", _recorded_is_over),
    (5, "no stale token", _tokens),
    (6, "used + reserved <= cap, and both add up", _money),
    (7, "void spend is the platform's", _payers),
    (10, "re-runs are capped and every void attempt is explained", _reruns),
    (11, "every live attempt has a lease", _leases),
    (11, "every queued slot was told to workers", _messages),
    (12, "certificates stand for ended attempts", _certificates),
    (12, "recorded attempts have evidence", _evidence),
    (14, "an outcome never changes", _outcomes_stand),
)


def violations(ledger: Ledger) -> list[Violation]:
    """Run every check in one snapshot of the ledger; an empty list means that all hold."""
    with ledger.reading() as connection:
        now = ledger.clock(connection)
        return [
            Violation(number, name, message)
            for number, name, check in CHECKS
            for message in check(connection, now)
        ]
