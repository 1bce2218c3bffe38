"""Worker and dispatcher processes, and the hosts they stand on; what is drained is kept here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ids import new_id
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, Host, HostOwner, Worker
from orchestrator.ledger.owners import Liveness, ProcessIdentity, liveness, this_process
from orchestrator.ledger.states import AttemptState

SILENT_BEATS: Final = 3
"""A process that has not beaten for so many beats is counted out until it beats again."""


class WorkerRole(StrEnum):
    """What a process does."""

    WORKER = "worker"
    DISPATCHER = "dispatcher"


@dataclass(frozen=True)
class WorkerView:
    """One process with what it does now; times are Unix milliseconds of the database.

    `present`: it beat within `SILENT_BEATS` beats and has not ended.
    """

    id: str
    role: WorkerRole
    host_name: str
    hardware_class: str
    slots: int
    queues: tuple[str, ...]
    children: int
    running: int
    refused: int
    draining: bool
    started_ms: int
    beaten_ms: int
    claimed_ms: int | None
    swept_ms: int | None
    reaped_ms: int | None
    ended_ms: int | None
    present: bool


def enter(
    ledger: Ledger,
    role: WorkerRole,
    *,
    host_name: str,
    hardware_class: str = "",
    slots: int = 0,
    queues: Sequence[str] = (),
) -> str:
    """Register this process; returns its id.

    A ledger in a file belongs to one machine: `UsageError` when a process of another one is registered and
    has not ended.
    """
    process = this_process()
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        if connection.dialect.name == "sqlite":
            _require_one_machine(connection, process.host)
        known = connection.scalar(sa.select(Host.name).where(Host.name == host_name))
        if known is None:
            connection.execute(sa.insert(Host), {"name": host_name, "draining": False, "changed_ms": now})
        worker_id = new_id(now)
        row = {
            "id": worker_id,
            "role": role,
            "host_name": host_name,
            "machine": process.host,
            "boot_id": process.boot_id,
            "pid_namespace": process.pid_namespace,
            "pid": process.pid,
            "pid_started": process.pid_started,
            "hardware_class": hardware_class,
            "slots": slots,
            "queues": list(queues),
            "children": 0,
            "refused": 0,
            "started_ms": now,
            "beaten_ms": now,
        }
        connection.execute(sa.insert(Worker), row)
        return worker_id


def _require_one_machine(connection: Connection, machine: str) -> None:
    for table in (Worker, HostOwner):
        column: Any = Worker.machine if table is Worker else HostOwner.host
        other = connection.scalar(sa.select(column).where(table.ended_ms.is_(None), column != machine))
        if other is not None:
            raise UsageError(
                "this ledger is a file, and a process of another machine is registered in it",
                hint="for several hosts use PostgreSQL: set ASSIZE_DATABASE_URL (docs/many-hosts.md)",
            )


def present_beat(
    ledger: Ledger,
    worker_id: str,
    *,
    children: int = 0,
    swept: bool = False,
    reaped: bool = False,
) -> bool:
    """The process is there; returns whether its host is draining."""
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        values: dict[str, Any] = {"beaten_ms": now, "children": children}
        if swept:
            values["swept_ms"] = now
        if reaped:
            values["reaped_ms"] = now
        connection.execute(sa.update(Worker).where(Worker.id == worker_id).values(**values))
        query = (
            sa.select(Host.draining).join(Worker, Worker.host_name == Host.name).where(Worker.id == worker_id)
        )
        return bool(connection.scalar(query))


def count_refusal(ledger: Ledger, worker_id: str) -> None:
    """A message was refused at the claim: a duplicate, or older than what became of its slot."""
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(Worker).where(Worker.id == worker_id).values(refused=Worker.refused + 1))


def leave(ledger: Ledger, worker_id: str) -> None:
    """The process has ended in good order."""
    with ledger.unit_of_work() as connection:
        connection.execute(
            sa.update(Worker)
            .where(Worker.id == worker_id, Worker.ended_ms.is_(None))
            .values(ended_ms=ledger.clock(connection), children=0)
        )


def bury(ledger: Ledger) -> int:
    """Note the end of processes that this machine can see to be dead; returns how many."""
    columns = (Worker.machine, Worker.boot_id, Worker.pid_namespace, Worker.pid, Worker.pid_started)
    with ledger.reading() as connection:
        rows = connection.execute(sa.select(Worker.id, *columns).where(Worker.ended_ms.is_(None))).all()
    dead = [row.id for row in rows if liveness(ProcessIdentity(*row[1:])) is Liveness.DEAD]
    for worker_id in dead:
        leave(ledger, worker_id)
    return len(dead)


def set_draining(ledger: Ledger, host_name: str, draining: bool) -> bool:
    """Drain a host or let it work again; False when it was so already. `NotFoundError` for no host."""
    with ledger.unit_of_work() as connection:
        moved = connection.execute(
            sa.update(Host)
            .where(Host.name == host_name, Host.draining.is_not(draining))
            .values(draining=draining, changed_ms=ledger.clock(connection))
        )
        if moved.rowcount == 1:
            return True
        if connection.scalar(sa.select(Host.name).where(Host.name == host_name)) is None:
            known = ", ".join(connection.scalars(sa.select(Host.name).order_by(Host.name).limit(8)))
            raise NotFoundError(
                f"no worker has ever run on a host called {host_name}",
                hint=f"known hosts: {known}" if known else "`assize worker run` starts one",
            )
        return False


def is_draining(ledger: Ledger, host_name: str) -> bool:
    """Whether a host takes no further tries; False for one that is not known."""
    with ledger.reading() as connection:
        return bool(connection.scalar(sa.select(Host.draining).where(Host.name == host_name)))


def workers(ledger: Ledger, *, beat_ms: int, ended: bool = False) -> list[WorkerView]:
    """Every process by host and start, with `ended` also those that are over."""
    live = (
        sa.select(HostOwner.worker_id, sa.func.count().label("running"))
        .join(Attempt, Attempt.owner_id == HostOwner.id)
        .where(Attempt.state == AttemptState.LIVE)
        .group_by(HostOwner.worker_id)
        .subquery()
    )
    claimed = (
        sa.select(HostOwner.worker_id, sa.func.max(Attempt.claimed_ms).label("claimed"))
        .join(Attempt, Attempt.owner_id == HostOwner.id)
        .group_by(HostOwner.worker_id)
        .subquery()
    )
    query = (
        sa.select(*Worker.__table__.columns, Host.draining, live.c.running, claimed.c.claimed)
        .join(Host, Host.name == Worker.host_name)
        .outerjoin(live, live.c.worker_id == Worker.id)
        .outerjoin(claimed, claimed.c.worker_id == Worker.id)
        .order_by(Worker.host_name, Worker.started_ms, Worker.id)
    )
    if not ended:
        query = query.where(Worker.ended_ms.is_(None))
    with ledger.reading() as connection:
        now = ledger.clock(connection)
        rows = connection.execute(query).all()
    return [_view(cast("sa.Row[Any]", row), now, beat_ms) for row in rows]


def _view(row: sa.Row[Any], now: int, beat_ms: int) -> WorkerView:
    return WorkerView(
        id=row.id,
        role=WorkerRole(row.role),
        host_name=row.host_name,
        hardware_class=row.hardware_class,
        slots=row.slots,
        queues=tuple(row.queues),
        children=row.children,
        running=int(row.running or 0),
        refused=row.refused,
        draining=bool(row.draining),
        started_ms=row.started_ms,
        beaten_ms=row.beaten_ms,
        claimed_ms=row.claimed,
        swept_ms=row.swept_ms,
        reaped_ms=row.reaped_ms,
        ended_ms=row.ended_ms,
        present=row.ended_ms is None and now - row.beaten_ms <= SILENT_BEATS * beat_ms,
    )


def capacity(ledger: Ledger, *, beat_ms: int, per_slot: int = 2) -> dict[str, int]:
    """The window of each queue: `per_slot` for each place of the present workers of it that do not drain."""
    with ledger.reading() as connection:
        now = ledger.clock(connection)
        rows = connection.execute(
            sa.select(Worker.queues, Worker.slots)
            .join(Host, Host.name == Worker.host_name)
            .where(
                Worker.ended_ms.is_(None),
                Worker.beaten_ms >= now - SILENT_BEATS * beat_ms,
                sa.not_(Host.draining),
            )
        ).all()
    windows: dict[str, int] = {}
    for queues, slots in rows:
        for queue in queues:
            windows[queue] = windows.get(queue, 0) + per_slot * slots
    return windows
