"""Transition 1: planned slots move into the window of queued ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Screening, TrySlot
from orchestrator.ledger.retry import retried
from orchestrator.ledger.states import EngineName, ScreeningState, SlotState


@dataclass(frozen=True)
class Message:
    """What a worker is told of a queued slot, and on which queue.

    `limit_ms` is all the time its attempt may take.
    """

    slot_id: str
    generation: int
    queue: str
    limit_ms: int


@retried
def queue(ledger: Ledger, screening_id: str, window: int, *, who: str = "dispatcher") -> int:
    """Transition 1 of a single machine: fill the screening's window of queued slots, in start order.

    Returns how many moved; none where the screening was handed to many hosts (`window.fill` is theirs).
    Reserves the per-try cap in the same unit, so `used + reserved <= cap` can never be passed. Slots whose
    `not_before` is in the future stay planned. For places at providers `claim` asks.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        screening = connection.execute(
            sa.select(
                Screening.cap_nusd, Screening.used_nusd, Screening.reserved_nusd, Screening.try_cap_nusd
            )
            .where(
                Screening.id == screening_id,
                Screening.engine == EngineName.LOCAL,
                Screening.state == ScreeningState.RUNNING,
                Screening.stop_reason.is_(None),
            )
            .with_for_update(key_share=True)
        ).first()
        if screening is None:
            return 0
        queued = connection.scalar(
            sa.select(sa.func.count()).where(
                TrySlot.screening_id == screening_id, TrySlot.state == SlotState.QUEUED
            )
        )
        room = window - int(queued or 0)
        if screening.cap_nusd is not None and screening.try_cap_nusd:
            left = screening.cap_nusd - screening.used_nusd - screening.reserved_nusd
            room = min(room, left // screening.try_cap_nusd)
        if room <= 0:
            return 0
        return len(move(connection, screening_id, room, screening.try_cap_nusd, now, who))


def move(
    connection: Connection,
    screening_id: str,
    room: int,
    try_cap: int,
    now: int,
    who: str,
    queue_name: str | None = None,
) -> list[Message]:
    """Queue up to `room` due slots of a screening (of one queue), in start order, and reserve their money.

    The caller holds the screening's row and has found that the cap allows it.
    """
    moved = connection.execute(
        sa.update(TrySlot)
        .where(TrySlot.id.in_(_due(screening_id, room, now, queue_name)), TrySlot.state == SlotState.PLANNED)
        .values(
            state=SlotState.QUEUED,
            generation=TrySlot.generation + 1,
            reserved_nusd=try_cap,
            sent_ms=now,
            updated_ms=now,
        )
        .returning(TrySlot.id, TrySlot.generation, TrySlot.queue, TrySlot.limit_ms, TrySlot.start_order)
    ).all()
    events = [
        event_row(
            now,
            screening_id,
            "queued",
            who,
            slot_id=row.id,
            from_state=SlotState.PLANNED,
            to_state=SlotState.QUEUED,
        )
        for row in moved
    ]
    if not events:
        return []
    if try_cap:
        connection.execute(
            sa.update(Screening)
            .where(Screening.id == screening_id)
            .values(reserved_nusd=Screening.reserved_nusd + try_cap * len(events))
        )
    connection.execute(INSERT_EVENT, events)
    return [
        Message(row.id, row.generation, row.queue, row.limit_ms)
        for row in sorted(moved, key=lambda row: row.start_order)
    ]


def _due(screening_id: str, room: int, now: int, queue_name: str | None) -> sa.Select[Any]:
    chosen = (
        sa.select(TrySlot.id)
        .where(
            TrySlot.screening_id == screening_id,
            TrySlot.state == SlotState.PLANNED,
            TrySlot.not_before_ms <= now,
        )
        .order_by(TrySlot.start_order)
        .limit(room)
    )
    if queue_name is not None:
        chosen = chosen.where(TrySlot.queue == queue_name)
    return chosen
