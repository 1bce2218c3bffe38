"""What the ledger knows of one process of a host: how it is asked whether that process does its work."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from orchestrator.ledger import hosts
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole, WorkerView
from orchestrator.ledger.models import Screening, TrySlot, Worker
from orchestrator.ledger.owners import ProcessIdentity
from orchestrator.ledger.states import EngineName, ScreeningState, SlotState


@dataclass(frozen=True)
class Presence:
    """One process; times are milliseconds of the database.

    `waiting_ms`: how long the try that waits longest in one of its queues has been told of; None for none.
    """

    view: WorkerView
    process: ProcessIdentity
    now_ms: int
    waiting_ms: int | None


def newest(ledger: Ledger, host_name: str, role: WorkerRole, *, beat_ms: int) -> Presence | None:
    """The process of this role that began last on a host and has not ended; None when there is none.

    One that was killed and not seen to be dead yet is older than what was started in its place.
    """
    views = [one for one in hosts.workers(ledger, beat_ms=beat_ms) if one.host_name == host_name]
    view = max(
        (one for one in views if one.role is role), key=lambda one: (one.started_ms, one.id), default=None
    )
    if view is None:
        return None
    columns = (Worker.machine, Worker.boot_id, Worker.pid_namespace, Worker.pid, Worker.pid_started)
    with ledger.reading() as connection:
        now = ledger.clock(connection)
        row = connection.execute(sa.select(*columns).where(Worker.id == view.id)).one()
        sent = connection.scalar(
            sa.select(sa.func.min(TrySlot.updated_ms))
            .join(Screening, Screening.id == TrySlot.screening_id)
            .where(
                Screening.engine == EngineName.CELERY,
                Screening.state == ScreeningState.RUNNING,
                TrySlot.state == SlotState.QUEUED,
                TrySlot.not_before_ms <= now,
                TrySlot.queue.in_(view.queues),
            )
        )
    return Presence(view, ProcessIdentity(*row), now, None if sent is None else max(0, now - sent))
