"""Whether a host has room for one try more: what its live attempts were promised, against what it has.

Places alone do not tell: a worker with eight of them may serve tries of two cores each. Workers of one host
share it, so that they are counted together, one claim of a host at a time. For a try that waits too long the
host keeps its room (`keeping`).
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger import keeping
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError
from orchestrator.ledger.keeping import Size, Verdict, judge
from orchestrator.ledger.models import Attempt, HostOwner, TrySlot, Worker
from orchestrator.ledger.postgres import hold_until_end
from orchestrator.ledger.states import AttemptState, SlotState

__all__ = ["HostFullError", "Size", "refusal", "taken"]


class HostFullError(LedgerError):
    """The try would fit this host, and not beside what runs there or is kept there; nothing was claimed."""

    code = "host-full"


def refusal(
    ledger: Ledger, connection: Connection, slot_id: str, worker_id: str, room: Size
) -> HostFullError | None:
    """Before a claim, in its unit: why the worker's host does not take the slot now; None where it may.

    To be raised after the unit: what it noted of the wait must stay. A slot that was planned without its
    needs fits everywhere.
    """
    query = sa.select(TrySlot.cpus_milli, TrySlot.memory_mb).where(
        TrySlot.id == slot_id,
        TrySlot.state == SlotState.QUEUED,
        TrySlot.not_before_ms <= ledger.clock(connection),
    )
    row = connection.execute(query).first()
    if row is None or not (row.cpus_milli or row.memory_mb):
        return None
    need = Size(row.cpus_milli, row.memory_mb)
    host = str(connection.scalar(sa.select(Worker.host_name).where(Worker.id == worker_id)))
    hold_until_end(connection, f"claim on {host}")
    now = ledger.clock(connection)
    waiting = keeping.kept(connection, host, now)
    verdict = judge(room, _taken(connection, host), slot_id, need, waiting, now)
    if verdict is Verdict.FULL:
        keeping.note(connection, host, slot_id, waiting, now)
        return HostFullError(f"host {host} has no room for slot {slot_id} beside what it runs")
    if verdict is Verdict.KEPT and waiting is not None:
        return HostFullError(f"host {host} keeps its room for slot {waiting.slot_id}, which waits for it")
    if waiting is not None and waiting.slot_id == slot_id:
        keeping.drop(connection, host)
    return None


def taken(ledger: Ledger, worker_id: str) -> Size:
    """What the live attempts of the worker's host were promised together."""
    with ledger.reading() as connection:
        host = connection.scalar(sa.select(Worker.host_name).where(Worker.id == worker_id))
        return _taken(connection, str(host))


def _taken(connection: Connection, host_name: str) -> Size:
    query = (
        sa.select(
            sa.func.coalesce(sa.func.sum(TrySlot.cpus_milli), 0).label("cpus"),
            sa.func.coalesce(sa.func.sum(TrySlot.memory_mb), 0).label("memory"),
        )
        .select_from(Attempt)
        .join(TrySlot, TrySlot.id == Attempt.slot_id)
        .join(HostOwner, HostOwner.id == Attempt.owner_id)
        .join(Worker, Worker.id == HostOwner.worker_id)
        .where(Attempt.state == AttemptState.LIVE, Worker.host_name == host_name)
    )
    row = connection.execute(query).one()
    return Size(int(row.cpus), int(row.memory))
