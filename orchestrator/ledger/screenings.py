"""The transitions of a screening (reference/distribution.md 4.3): plan, start, pause, cancel, close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ids import new_id
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import StateError
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Event, Screening, TrySlot
from orchestrator.ledger.retry import retried
from orchestrator.ledger.states import (
    OPEN_SCREENINGS,
    OPERATOR_CANCELLED,
    RERUN_LIMIT,
    EngineName,
    ScreeningState,
    SlotState,
    closing_state,
)
from scoring.vocabulary import Outcome


@dataclass(frozen=True)
class PlannedSlot:
    """One try to be: `limit_ms` is all the time its attempt may take, clean-up included.

    `queue` names the hosts that can hold it (`orchestrator.planning.classes`); the local engine needs none.
    `cpus_milli` (thousandths of a core) and `memory_mb` (MiB) are what it is promised; 0 is not known.
    """

    task_id: str
    k: int
    start_order: int
    not_before_ms: int
    limit_ms: int
    queue: str = ""
    cpus_milli: int = 0
    memory_mb: int = 0


@dataclass(frozen=True)
class NewScreening:
    """What `plan` writes down. Money in nano-USD; `cap_nusd` None means no cap.

    `engine` is the engine that serves it first; `share` its weight where screenings wait for the same hosts.
    `providers` are those that serve the agent's models, each once.
    """

    identity: str
    pack_id: str
    pack_version: str
    pack_digest: str
    agent_id: str
    agent_version: str
    agent_digest: str
    conditions: Mapping[str, Any]
    comparability: str
    requester: str
    funder: str
    seed: str
    window_ms: int
    slots: Sequence[PlannedSlot]
    cap_nusd: int | None = None
    try_cap_nusd: int = 0
    rerun_limit: int = RERUN_LIMIT
    engine: EngineName = EngineName.LOCAL
    share: int = 1
    providers: Sequence[str] = ()


@retried
def plan(ledger: Ledger, new: NewScreening, *, who: str, screening_id: str | None = None) -> str:
    """Freeze the plan: the screening and every slot in one unit; returns the screening id.

    Raises `StateError` when a screening of the same identity is still open: it is resumed, not planned
    again.
    """
    with ledger.exclusive(f"plan {new.identity}"), ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        if known := _open_with(connection, new.identity):
            raise StateError(
                f"screening {known} of the same pack, agent and conditions is still open",
                hint="run the same command again to resume it",
            )
        chosen = screening_id or new_id(now)
        connection.execute(sa.insert(Screening), _screening_row(new, chosen, now))
        if new.slots:
            connection.execute(sa.insert(TrySlot), [_slot_row(slot, chosen, now) for slot in new.slots])
        connection.execute(
            INSERT_EVENT,
            event_row(
                now,
                chosen,
                "planned",
                who,
                to_state=ScreeningState.PLANNED,
                data={"slots": len(new.slots), "seed": new.seed},
            ),
        )
    return chosen


def _open_with(connection: Connection, identity: str) -> str | None:
    return connection.scalar(
        sa.select(Screening.id).where(Screening.identity == identity, Screening.closed_ms.is_(None))
    )


def _screening_row(new: NewScreening, screening_id: str, now: int) -> dict[str, Any]:
    return {
        "id": screening_id,
        "identity": new.identity,
        "pack_id": new.pack_id,
        "pack_version": new.pack_version,
        "pack_digest": new.pack_digest,
        "agent_id": new.agent_id,
        "agent_version": new.agent_version,
        "agent_digest": new.agent_digest,
        "conditions": dict(new.conditions),
        "comparability": new.comparability,
        "requester": new.requester,
        "funder": new.funder,
        "seed": new.seed,
        "window_ms": new.window_ms,
        "planned_slots": len(new.slots),
        "rerun_limit": new.rerun_limit,
        "try_cap_nusd": new.try_cap_nusd,
        "cap_nusd": new.cap_nusd,
        "used_nusd": 0,
        "reserved_nusd": 0,
        "state": ScreeningState.PLANNED,
        "engine": new.engine,
        "share": new.share,
        "providers": list(new.providers),
        "created_ms": now,
    }


def _slot_row(slot: PlannedSlot, screening_id: str, now: int) -> dict[str, Any]:
    return {
        "id": new_id(now),
        "screening_id": screening_id,
        "task_id": slot.task_id,
        "k": slot.k,
        "start_order": slot.start_order,
        "not_before_ms": slot.not_before_ms,
        "limit_ms": slot.limit_ms,
        "cpus_milli": slot.cpus_milli,
        "memory_mb": slot.memory_mb,
        "state": SlotState.PLANNED,
        "generation": 0,
        "token": 0,
        "reruns": 0,
        "interruptions": 0,
        "reserved_nusd": 0,
        "queue": slot.queue,
        "updated_ms": now,
    }


def hand_to(ledger: Ledger, screening_id: str, engine: EngineName, *, who: str, share: int = 1) -> bool:
    """Let another engine serve an open screening; False when nothing changed.

    Running attempts are not touched: claims and tokens are the same for every engine. Queued slots go back
    to planned (transition 11): each engine queues by its own rules, and a message that another one sent
    claims nothing any more.
    """
    with ledger.unit_of_work() as connection:
        before = connection.scalar(
            sa.select(Screening.engine).where(Screening.id == screening_id).with_for_update(key_share=True)
        )
        moved = connection.execute(
            sa.update(Screening)
            .where(
                Screening.id == screening_id,
                Screening.state.in_(OPEN_SCREENINGS),
                sa.or_(Screening.engine != engine, Screening.share != share),
            )
            .values(engine=engine, share=share)
        )
        if moved.rowcount != 1:
            return False
        now = ledger.clock(connection)
        connection.execute(INSERT_EVENT, event_row(now, screening_id, "handed", who, reason=engine))
        if before != engine:
            _release(connection, screening_id, (SlotState.QUEUED,), SlotState.PLANNED, "handed", who, now)
        return True


def start(ledger: Ledger, screening_id: str, *, who: str) -> bool:
    """planned -> running; False when it was running already. Other states raise `StateError`."""
    return _step(ledger, screening_id, ScreeningState.PLANNED, ScreeningState.RUNNING, "started", who)


def pause(ledger: Ledger, screening_id: str, *, who: str) -> bool:
    """running -> paused, and transition 11: queued slots go back to planned; running tries finish."""
    return _step(ledger, screening_id, ScreeningState.RUNNING, ScreeningState.PAUSED, "paused", who)


def resume(ledger: Ledger, screening_id: str, *, who: str) -> bool:
    """paused -> running; False when it was running already."""
    return _step(ledger, screening_id, ScreeningState.PAUSED, ScreeningState.RUNNING, "resumed", who)


@retried
def _step(
    ledger: Ledger, screening_id: str, before: ScreeningState, after: ScreeningState, kind: str, who: str
) -> bool:
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        values: dict[str, Any] = {"state": after}
        if kind == "started":
            values["started_ms"] = now
        moved = connection.execute(
            sa.update(Screening)
            .where(Screening.id == screening_id, Screening.state == before, Screening.stop_reason.is_(None))
            .values(**values)
        )
        if moved.rowcount == 1:
            event = event_row(now, screening_id, kind, who, from_state=before, to_state=after)
            connection.execute(INSERT_EVENT, event)
            if after is ScreeningState.PAUSED:
                _release(connection, screening_id, (SlotState.QUEUED,), SlotState.PLANNED, "paused", who, now)
            return True
        found = connection.scalar(sa.select(Screening.state).where(Screening.id == screening_id))
        if found == after:
            return False
        raise StateError(f"screening {screening_id} is {found or 'unknown'}: it cannot be {kind}")


def cancel(ledger: Ledger, screening_id: str, *, who: str) -> int:
    """Give the screening up: transition 9 at once for slots that wait; returns how many were cancelled.

    Running attempts learn it with their next heartbeat (transition 10); the screening closes as
    `cancelled` when the last of them has ended.
    """
    return _stop(ledger, screening_id, ScreeningState.CANCELLED, OPERATOR_CANCELLED, who)


@retried
def stop_at_cap(ledger: Ledger, screening_id: str, *, who: str = "dispatcher") -> int:
    """Transition 9 by the cap guard: when no try is queued or running and none fits the cap any more.

    Returns how many planned slots were cancelled, 0 when the cap still has room or nothing is planned.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        # Locked in a statement of its own: only the next one sees what a dispatcher has just queued.
        _lock(connection, screening_id)
        busy = (
            sa.select(TrySlot.id)
            .where(
                TrySlot.screening_id == screening_id,
                TrySlot.state.in_((SlotState.QUEUED, SlotState.RUNNING)),
            )
            .exists()
        )
        moved = connection.execute(
            sa.update(Screening)
            .where(
                Screening.id == screening_id,
                Screening.state == ScreeningState.RUNNING,
                Screening.stop_reason.is_(None),
                Screening.used_nusd + Screening.reserved_nusd + Screening.try_cap_nusd > Screening.cap_nusd,
                sa.not_(busy),
            )
            .values(stop_reason=ScreeningState.CAP_STOPPED)
        )
        if moved.rowcount != 1:
            return 0
        waiting = (SlotState.PLANNED,)
        return _release(connection, screening_id, waiting, SlotState.CANCELLED, "cost_cap", who, now)


@retried
def _stop(ledger: Ledger, screening_id: str, stop: ScreeningState, reason: str, who: str) -> int:
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        moved = connection.execute(
            sa.update(Screening)
            .where(
                Screening.id == screening_id,
                Screening.state.in_(OPEN_SCREENINGS),
                Screening.stop_reason.is_(None),
            )
            .values(stop_reason=stop)
        )
        if moved.rowcount != 1:
            found = connection.execute(
                sa.select(Screening.state, Screening.stop_reason).where(Screening.id == screening_id)
            ).first()
            if found is not None and found.stop_reason == stop:
                return 0
            raise StateError(f"screening {screening_id} is {found.state if found else 'unknown'}")
        connection.execute(INSERT_EVENT, event_row(now, screening_id, "stopping", who, reason=reason))
        waiting = (SlotState.PLANNED, SlotState.QUEUED)
        return _release(connection, screening_id, waiting, SlotState.CANCELLED, reason, who, now)


def _lock(connection: Connection, screening_id: str) -> None:
    connection.execute(
        sa.select(Screening.id).where(Screening.id == screening_id).with_for_update(key_share=True)
    )


def _release(
    connection: Connection,
    screening_id: str,
    before: tuple[SlotState, ...],
    after: SlotState,
    reason: str,
    who: str,
    now: int,
) -> int:
    """Move every slot in one of `before` to `after` and give back what was reserved for it."""
    total = 0
    for state in before:
        here = (TrySlot.screening_id == screening_id, TrySlot.state == state)
        # Locked first: a slot that is claimed meanwhile keeps its reservation and must not be summed up. None
        # can join them, since the caller holds the screening, which whoever queues a slot has to lock.
        locked = sa.select(TrySlot.reserved_nusd).where(*here).with_for_update(key_share=True)
        held = sum(connection.scalars(locked))
        values: dict[str, Any] = {"state": after, "reserved_nusd": 0, "updated_ms": now}
        if after is SlotState.CANCELLED:
            values["reason"] = reason
        # By the database itself: thousands of rows need not travel, and a cancel is to be quick.
        event = event_row(now, screening_id, "released", who, from_state=state, to_state=after, reason=reason)
        event |= {"slot_id": TrySlot.id}
        told = {name: value for name, value in event.items() if value is not None}
        lines = sa.select(*(_as_column(value) for value in told.values())).where(*here)
        connection.execute(sa.insert(Event).from_select(list(told), lines.order_by(TrySlot.start_order)))
        total += connection.execute(sa.update(TrySlot).where(*here).values(**values)).rowcount
        if held:
            connection.execute(
                sa.update(Screening)
                .where(Screening.id == screening_id)
                .values(reserved_nusd=Screening.reserved_nusd - held)
            )
    return total


def _as_column(value: Any) -> Any:
    """A column as it is; anything else as a value."""
    return value if isinstance(value, sa.orm.InstrumentedAttribute) else sa.literal(value)


@retried
def close(ledger: Ledger, screening_id: str, *, who: str) -> ScreeningState | None:
    """Close the screening when no slot is open; anybody may call it, any number of times.

    Returns the closed state (also when it was closed before), None while it is open.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        found = connection.execute(
            sa.select(Screening.state, Screening.stop_reason)
            .where(Screening.id == screening_id)
            .with_for_update(key_share=True)
        ).first()
        if found is None:
            raise StateError(f"there is no screening {screening_id}")
        if found.state not in OPEN_SCREENINGS:
            return ScreeningState(found.state)
        counts, not_evaluable = _counts(connection, screening_id)
        after = closing_state(counts, not_evaluable=not_evaluable, stop_reason=found.stop_reason)
        if after is None or (found.state == ScreeningState.PLANNED and found.stop_reason is None):
            return None
        connection.execute(
            sa.update(Screening)
            .where(Screening.id == screening_id, Screening.state == found.state)
            .values(state=after, closed_ms=now)
        )
        connection.execute(
            INSERT_EVENT,
            event_row(now, screening_id, "closed", who, from_state=found.state, to_state=after),
        )
        return after


def _counts(connection: Connection, screening_id: str) -> tuple[dict[SlotState, int], int]:
    rows = connection.execute(
        sa.select(TrySlot.state, TrySlot.outcome, sa.func.count())
        .where(TrySlot.screening_id == screening_id)
        .group_by(TrySlot.state, TrySlot.outcome)
    ).all()
    counts: dict[SlotState, int] = {}
    not_evaluable = 0
    for state, outcome, count in rows:
        counts[SlotState(state)] = counts.get(SlotState(state), 0) + count
        not_evaluable += count if outcome == Outcome.NOT_EVALUABLE else 0
    return counts, not_evaluable
