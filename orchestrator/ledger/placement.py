"""Whether a host has room for one try more: what its live attempts were promised, against what it has.

Places alone do not tell: a worker with eight of them may serve tries of two cores each. Workers of one host
share it, so that they are counted together, one claim of a host at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError
from orchestrator.ledger.models import Attempt, HostOwner, TrySlot, Worker
from orchestrator.ledger.postgres import hold_until_end
from orchestrator.ledger.states import AttemptState, SlotState


class HostFullError(LedgerError):
    """The try would fit this host, and not beside what runs there now; nothing was claimed."""

    code = "host-full"


@dataclass(frozen=True)
class Size:
    """Cores in thousandths and memory in MiB: of a host, of a try, or of all that runs."""

    cpus_milli: int
    memory_mb: int

    def holds(self, taken: Size, more: Size) -> bool:
        """Whether `more` fits beside `taken`; the first try of a host always fits. Pure.

        Needs are rounded up to choose a queue, so that a single one may pass the host by less than twice.
        """
        if taken == Size(0, 0):
            return True
        cpus, memory = taken.cpus_milli + more.cpus_milli, taken.memory_mb + more.memory_mb
        return cpus <= self.cpus_milli and memory <= self.memory_mb


def require_room(connection: Connection, slot_id: str, worker_id: str, room: Size) -> None:
    """Before a claim, in its unit: `HostFullError` when the slot does not fit the worker's host now.

    A slot that was planned without its needs fits everywhere.
    """
    query = sa.select(TrySlot.cpus_milli, TrySlot.memory_mb).where(
        TrySlot.id == slot_id, TrySlot.state == SlotState.QUEUED
    )
    need = connection.execute(query).first()
    if need is None or not (need.cpus_milli or need.memory_mb):
        return
    host = connection.scalar(sa.select(Worker.host_name).where(Worker.id == worker_id))
    hold_until_end(connection, f"claim on {host}")
    if not room.holds(_taken(connection, str(host)), Size(need.cpus_milli, need.memory_mb)):
        raise HostFullError(f"host {host} has no room for slot {slot_id} beside what it runs")


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
