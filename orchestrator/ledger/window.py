"""Which slots are told to workers now: the window of many hosts, and what must be told again.

The database is the queue. A broker holds a few messages for each free place at any time, so that order,
fairness, pause and cancel are one query each and never need a purge (reference/distribution.md 4.5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger import waits
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message, move
from orchestrator.ledger.models import Host, Screening, TrySlot, Worker
from orchestrator.ledger.providers import DISPATCH_TURN, rooms
from orchestrator.ledger.retry import retried
from orchestrator.ledger.shares import Demand, allot
from orchestrator.ledger.states import OPEN_SCREENINGS, OPEN_SLOTS, EngineName, ScreeningState, SlotState

_RESEND: Final = 1000
"""Messages that one sweep sends again at most; the next one goes on."""

_HANDED_BACK: Final = 0
"""`sent_ms` of a slot whose message somebody took and gave back: to be sent at once, and not new."""


@dataclass(frozen=True)
class _Head:
    id: str
    share: int
    affordable: int | None
    try_cap_nusd: int
    providers: tuple[str, ...]


@retried
def fill(ledger: Ledger, capacity: Mapping[str, int], *, who: str) -> list[Message]:
    """Transition 1 for every screening of many hosts: fill each queue up to `capacity`; the messages to send.

    `capacity` maps a queue to the most messages that may wait in it; no provider gets more tries than its
    limit, those of this machine's own engine counted, and a run on one machine that waits for a place there
    has its share of them. Of several dispatchers one fills at a time; another one that comes meanwhile
    returns nothing. Money is reserved in the same unit.
    """
    with ledger.unit_of_work() as connection:
        if not _my_turn(connection):
            return []
        now = ledger.clock(connection)
        heads = _heads(connection)
        if not heads:
            return []
        ready, busy, waiting = _counts(connection, [head.id for head in heads], now)
        free = rooms(connection)
        if free:
            _keep_shares(connection, heads, ready, busy, free, now)
        messages: list[Message] = []
        refused: set[str] = set()
        served: set[str] = set()
        for queue, most in sorted(capacity.items()):
            demands = [_demand(head, queue, ready, busy) for head in heads]
            room = most - waiting.get(queue, 0)
            allotted = allot(room, demands, free)
            if sum(allotted.values()) < room:
                refused |= {
                    one.screening_id for one in demands if allotted.get(one.screening_id, 0) < one.ready
                }
            for place, head in enumerate(heads):
                count = allotted.get(head.id, 0)
                if not count:
                    continue
                messages += move(connection, head.id, count, head.try_cap_nusd, now, who, queue)
                for name in head.providers:
                    if name in free:
                        free[name] -= count
                        served.add(head.id)
                if head.affordable is not None:
                    heads[place] = replace(head, affordable=head.affordable - count)
        if served:  # who has just had a place comes after who waits
            waits.drop(connection, served)
        if refused:
            waits.note(connection, sorted(refused), now)
        return messages


def _demand(head: _Head, queue: str, ready: _Counts, busy: _Counts) -> Demand:
    wanted = ready.get((head.id, queue), 0)
    if head.affordable is not None:
        wanted = min(wanted, head.affordable)
    return Demand(head.id, head.share, busy.get((head.id, queue), 0), wanted, head.providers)


def _keep_shares(
    connection: Connection,
    heads: Sequence[_Head],
    ready: _Counts,
    busy: _Counts,
    free: dict[str, int],
    now: int,
) -> None:
    """Take out of `free` what belongs to runs on one machine that wait: they come for it by themselves."""
    waiting = waits.waiting(connection, now)
    hosted = {head.id for head in heads}
    local = [one for one in waiting if one.screening_id not in hosted and free.keys() & set(one.providers)]
    if not local:
        return
    demands = list(local)
    for head in heads:
        wanted, running = (
            sum(count for (screening_id, _), count in counts.items() if screening_id == head.id)
            for counts in (ready, busy)
        )
        if head.affordable is not None:
            wanted = min(wanted, head.affordable)
        demands.append(Demand(head.id, head.share, running, wanted, head.providers))
    # Of equals the one that waits longest, as a claim of the run decides it: if each side left the place to
    # the other, nobody would ever have it.
    turn = {one.screening_id: place for place, one in enumerate(waiting)}
    demands.sort(key=lambda one: turn.get(one.screening_id, len(turn)))
    given = allot(sum(one.ready for one in demands), demands, free)
    for one in local:
        for name in one.providers:
            if name in free:
                free[name] -= given.get(one.screening_id, 0)


def _my_turn(connection: Connection) -> bool:
    """SQLite has one writer anyway."""
    if connection.dialect.name != "postgresql":
        return True
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(DISPATCH_TURN))))


def _heads(connection: Connection) -> list[_Head]:
    query = (
        sa.select(
            Screening.id,
            Screening.share,
            Screening.cap_nusd,
            Screening.used_nusd,
            Screening.reserved_nusd,
            Screening.try_cap_nusd,
            Screening.providers,
        )
        .where(
            Screening.engine == EngineName.CELERY,
            Screening.state == ScreeningState.RUNNING,
            Screening.stop_reason.is_(None),
        )
        .order_by(Screening.created_ms, Screening.id)
        # Not FOR UPDATE: that would wait for every event that is just being written.
        .with_for_update(key_share=True)
    )
    heads = []
    for row in connection.execute(query):
        affordable = None
        if row.cap_nusd is not None and row.try_cap_nusd:
            affordable = (row.cap_nusd - row.used_nusd - row.reserved_nusd) // row.try_cap_nusd
        heads.append(_Head(row.id, row.share, affordable, row.try_cap_nusd, tuple(row.providers)))
    return heads


_Counts = dict[tuple[str, str], int]


def _counts(connection: Connection, ids: Sequence[str], now: int) -> tuple[_Counts, _Counts, dict[str, int]]:
    """(slots that may start, queued and running ones) by screening and queue; queued ones by queue."""
    query = (
        sa.select(TrySlot.screening_id, TrySlot.queue, TrySlot.state, sa.func.count())
        .where(
            TrySlot.screening_id.in_(ids),
            TrySlot.state.in_(OPEN_SLOTS),
            sa.or_(TrySlot.state != SlotState.PLANNED, TrySlot.not_before_ms <= now),
        )
        .group_by(TrySlot.screening_id, TrySlot.queue, TrySlot.state)
    )
    ready: _Counts = {}
    busy: _Counts = {}
    waiting: dict[str, int] = {}
    for screening_id, queue, state, count in connection.execute(query):
        key = (screening_id, queue)
        if state == SlotState.PLANNED:
            ready[key] = count
            continue
        busy[key] = busy.get(key, 0) + count
        if state == SlotState.QUEUED:
            waiting[queue] = waiting.get(queue, 0) + count
    return ready, busy, waiting


def _waiting(now: sa.ColumnElement[int] | int) -> tuple[sa.ColumnElement[bool], ...]:
    """Queued slots of running screenings of many hosts that may start now."""
    served = (
        sa.select(Screening.id)
        .where(
            Screening.id == TrySlot.screening_id,
            Screening.engine == EngineName.CELERY,
            Screening.state == ScreeningState.RUNNING,
            Screening.stop_reason.is_(None),
        )
        .exists()
    )
    return (TrySlot.state == SlotState.QUEUED, TrySlot.not_before_ms <= now, served)


def expected(ledger: Ledger) -> dict[str, int]:
    """How many messages must at least be waiting in each queue: one for every queued slot that was sent."""
    with ledger.reading() as connection:
        now = ledger.clock(connection)
        rows = connection.execute(
            sa.select(TrySlot.queue, sa.func.count())
            .where(*_waiting(now), TrySlot.sent_ms > _HANDED_BACK)
            .group_by(TrySlot.queue)
        ).all()
    return {row[0]: row[1] for row in rows}


def unsent(ledger: Ledger) -> list[Message]:
    """Queued slots whose own message was never sent (re-runs after their pause) or was given back; now marked
    as sent."""
    return _mark(ledger, sa.or_(TrySlot.sent_ms.is_(None), TrySlot.sent_ms == _HANDED_BACK))


def overdue(ledger: Ledger, queues: Collection[str], *, older_ms: int) -> list[Message]:
    """Transition 2: slots of `queues` that were sent more than `older_ms` ago; marked as sent again.

    The generation stays, so a message that turns up after all is a harmless duplicate.
    """
    if not queues:
        return []
    return _mark(ledger, TrySlot.queue.in_(sorted(queues)), older_ms=older_ms)


@retried
def _mark(ledger: Ledger, *which: sa.ColumnElement[bool], older_ms: int | None = None) -> list[Message]:
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        conditions = [*which, *_waiting(now)]
        if older_ms is not None:
            conditions.append(TrySlot.sent_ms < now - older_ms)
        chosen = sa.select(TrySlot.id).where(*conditions).order_by(TrySlot.sent_ms).limit(_RESEND)
        # The wait of a slot begins with its first message: one that is handed back again and again looks old.
        told = sa.case((TrySlot.sent_ms.is_(None), now), else_=TrySlot.updated_ms)
        # The conditions are asked again: of two sweeps at once the later one must find nothing.
        rows = connection.execute(
            sa.update(TrySlot)
            .where(TrySlot.id.in_(chosen), *conditions)
            .values(sent_ms=now, updated_ms=told)
            .returning(TrySlot.id, TrySlot.generation, TrySlot.queue, TrySlot.limit_ms)
        ).all()
    return [Message(row.id, row.generation, row.queue, row.limit_ms) for row in rows]


@retried
def give_back(ledger: Ledger, slot_id: str, generation: int, *, draining: str | None = None) -> bool:
    """A message that was taken and not claimed, since its host is unfit: send it again at once.

    With `draining`, the id of a worker, only if that worker's host is draining.
    """
    conditions = [
        TrySlot.id == slot_id,
        TrySlot.generation == generation,
        TrySlot.state == SlotState.QUEUED,
    ]
    if draining is not None:
        host = (
            sa.select(Host.name)
            .join(Worker, Worker.host_name == Host.name)
            .where(Worker.id == draining, Host.draining)
        )
        conditions.append(host.exists())
    with ledger.unit_of_work() as connection:
        handed_back = sa.update(TrySlot).where(*conditions).values(sent_ms=_HANDED_BACK)
        return connection.execute(handed_back).rowcount == 1


def finished(ledger: Ledger) -> list[str]:
    """Open screenings of many hosts that have no open slot: to be closed."""
    open_slot = (
        sa.select(TrySlot.id)
        .where(TrySlot.screening_id == Screening.id, TrySlot.state.in_(OPEN_SLOTS))
        .exists()
    )
    query = sa.select(Screening.id).where(
        Screening.engine == EngineName.CELERY, Screening.state.in_(OPEN_SCREENINGS), sa.not_(open_slot)
    )
    with ledger.reading() as connection:
        return list(connection.scalars(query))


def unaffordable(ledger: Ledger) -> list[str]:
    """Running screenings of many hosts whose cap has no room for another try."""
    query = sa.select(Screening.id).where(
        Screening.engine == EngineName.CELERY,
        Screening.state == ScreeningState.RUNNING,
        Screening.stop_reason.is_(None),
        Screening.used_nusd + Screening.reserved_nusd + Screening.try_cap_nusd > Screening.cap_nusd,
    )
    with ledger.reading() as connection:
        return list(connection.scalars(query))
