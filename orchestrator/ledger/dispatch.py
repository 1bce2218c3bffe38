"""Transition 1: planned slots move into the window of queued ones."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Screening, TrySlot
from orchestrator.ledger.retry import retried
from orchestrator.ledger.states import ScreeningState, SlotState


@retried
def queue(ledger: Ledger, screening_id: str, window: int, *, who: str = "dispatcher") -> int:
    """Transition 1: fill the screening's window of queued slots, in start order; returns how many moved.

    Reserves the per-try cap in the same unit, so `used + reserved <= cap` can never be passed. Slots whose
    `not_before` is in the future stay planned.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        screening = connection.execute(
            sa.select(
                Screening.cap_nusd, Screening.used_nusd, Screening.reserved_nusd, Screening.try_cap_nusd
            )
            .where(
                Screening.id == screening_id,
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
        return _queue(connection, screening_id, room, screening.try_cap_nusd, now, who)


def _queue(connection: Connection, screening_id: str, room: int, try_cap: int, now: int, who: str) -> int:
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
    moved = connection.execute(
        sa.update(TrySlot)
        .where(TrySlot.id.in_(chosen), TrySlot.state == SlotState.PLANNED)
        .values(
            state=SlotState.QUEUED,
            generation=TrySlot.generation + 1,
            reserved_nusd=try_cap,
            sent_ms=now,
            updated_ms=now,
        )
        .returning(TrySlot.id)
    ).scalars()
    events = [
        event_row(
            now,
            screening_id,
            "queued",
            who,
            slot_id=slot,
            from_state=SlotState.PLANNED,
            to_state=SlotState.QUEUED,
        )
        for slot in moved
    ]
    if not events:
        return 0
    if try_cap:
        connection.execute(
            sa.update(Screening)
            .where(Screening.id == screening_id)
            .values(reserved_nusd=Screening.reserved_nusd + try_cap * len(events))
        )
    connection.execute(INSERT_EVENT, events)
    return len(events)
