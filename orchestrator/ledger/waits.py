"""Who waits for a place at a provider, so that nobody who has more than its share takes it.

A run on one machine asks for a place when it starts a try, and dispatchers of workers take places for many
tries at once. Whoever is refused is noted and asks again within seconds; a place that comes free goes to whom
`allot` gives it among all that wait. A note ends by itself, for whoever asked may be dead: until then a place
may stay free, and no longer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from orchestrator.ledger.models import PlaceWait, Screening, TrySlot
from orchestrator.ledger.shares import Demand
from orchestrator.ledger.states import EngineName, ScreeningState, SlotState

WAIT_MS: Final = 10_000
"""A run asks every second, a dispatcher too."""


def note(connection: Connection, screening_ids: Collection[str], now_ms: int) -> None:
    """These were refused a place just now."""
    query = sa.select(PlaceWait.screening_id, PlaceWait.until_ms)
    query = query.where(PlaceWait.screening_id.in_(screening_ids))
    known = {row.screening_id: row.until_ms for row in connection.execute(query)}
    until = now_ms + WAIT_MS
    # Not at every refusal: a row that is good for a while yet says the same.
    again = [one for one, good in known.items() if now_ms < good < now_ms + WAIT_MS // 2]
    if again:
        connection.execute(
            sa.update(PlaceWait).where(PlaceWait.screening_id.in_(again)).values(until_ms=until)
        )
    new = [one for one in screening_ids if known.get(one, 0) <= now_ms]
    if new:
        drop(connection, new)
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        rows = [{"screening_id": one, "since_ms": now_ms, "until_ms": until} for one in new]
        connection.execute(dialect.insert(PlaceWait).values(rows).on_conflict_do_nothing())


def drop(connection: Connection, screening_ids: Collection[str]) -> None:
    """These have a place, or wait no more."""
    connection.execute(sa.delete(PlaceWait).where(PlaceWait.screening_id.in_(screening_ids)))


def waiting(connection: Connection, now_ms: int) -> list[Demand]:
    """Every running screening that waits, for one try each, who waits longest first."""
    busy = (
        sa.select(sa.func.count())
        .where(TrySlot.screening_id == Screening.id, has_place())
        .correlate(Screening)
        .scalar_subquery()
    )
    query = (
        sa.select(Screening.id, Screening.share, Screening.providers, busy.label("busy"))
        .join(PlaceWait, PlaceWait.screening_id == Screening.id)
        .where(
            PlaceWait.until_ms > now_ms,
            Screening.state == ScreeningState.RUNNING,
            Screening.stop_reason.is_(None),
        )
        .order_by(PlaceWait.since_ms, Screening.id)
    )
    rows = connection.execute(query).all()
    return [Demand(row.id, row.share, row.busy, 1, tuple(row.providers)) for row in rows]


def has_place() -> sa.ColumnElement[bool]:
    """Of a slot, with its screening: it runs, or was told to workers, whom nothing stops any more."""
    told = sa.and_(TrySlot.state == SlotState.QUEUED, Screening.engine == EngineName.CELERY)
    return sa.or_(TrySlot.state == SlotState.RUNNING, told)
