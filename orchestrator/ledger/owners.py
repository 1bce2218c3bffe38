"""Who runs attempts on this host, and which of them are dead.

On one host a process is the same process only with the same pid, the same start time and the same boot
(reference/distribution.md section 5), so a restart takes dead attempts over at once instead of waiting
for their leases. Where that cannot be seen (another host, another pid namespace) only the lease counts.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from orchestrator.ids import new_id
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, HostOwner
from orchestrator.ledger.states import AttemptState

_PROC: Final = Path("/proc")


class Liveness(StrEnum):
    """What this process can say about another one."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProcessIdentity:
    """What tells one process from every other one, before and after."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    pid_started: str


@dataclass(frozen=True)
class Owner:
    """A row of `host_owner`."""

    id: str
    process: ProcessIdentity


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _fields(pid: int | str) -> list[str]:
    """What the kernel tells of a process that runs, from its state on; empty for one that does not."""
    # The second field is the command in parentheses and may hold anything, so count from the last one.
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return [] if len(fields) < 20 or fields[0] in ("Z", "X") else fields


def _started(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; None when it does not run (a zombie does not)."""
    return next(iter(_fields(pid)[19:]), None)


def children_of(pid: int) -> int:
    """How many processes that run are direct children of `pid`."""
    # Not from /proc/<pid>/task/*/children: not every kernel is built with it.
    numbers = (name for name in os.listdir(_PROC) if name.isdecimal())
    return sum(_fields(number)[1:2] == [str(pid)] for number in numbers)


def is_running(pid: int) -> bool:
    """Whether a process of this machine is there; a zombie is not."""
    return _started(pid) is not None


@cache
def _machine() -> tuple[str, str, str]:
    host = _read(Path("/etc/machine-id")) or platform.node()
    boot = _read(_PROC / "sys" / "kernel" / "random" / "boot_id")
    try:
        namespace = os.readlink(_PROC / "self" / "ns" / "pid")
    except OSError:
        namespace = ""
    return host, boot, namespace


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    host, boot, namespace = _machine()
    return ProcessIdentity(host, boot, namespace, os.getpid(), _started(os.getpid()) or "")


def liveness(other: ProcessIdentity) -> Liveness:
    """Whether `other` still runs, as far as this process can see."""
    mine = this_process()
    if not mine.boot_id or not mine.pid_started:
        return Liveness.UNKNOWN
    if other.boot_id != mine.boot_id:
        # The same machine after a reboot kept no process; another machine cannot be seen from here.
        return Liveness.DEAD if other.host == mine.host else Liveness.UNKNOWN
    if other.pid_namespace != mine.pid_namespace:
        return Liveness.UNKNOWN
    return Liveness.ALIVE if _started(other.pid) == other.pid_started else Liveness.DEAD


def register(ledger: Ledger, worker_id: str | None = None) -> Owner:
    """Enter this process as an owner; one row per run, or per child of the worker `worker_id`."""
    process = this_process()
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        owner = Owner(new_id(now), process)
        connection.execute(
            sa.insert(HostOwner),
            {
                "id": owner.id,
                "host": process.host,
                "boot_id": process.boot_id,
                "pid_namespace": process.pid_namespace,
                "pid": process.pid,
                "pid_started": process.pid_started,
                "started_ms": now,
                "beaten_ms": now,
                "worker_id": worker_id,
            },
        )
    return owner


def retire(ledger: Ledger, owner: Owner) -> None:
    """Note that the owner has ended; it holds no live attempt any more."""
    with ledger.unit_of_work() as connection:
        connection.execute(
            sa.update(HostOwner)
            .where(HostOwner.id == owner.id, HostOwner.ended_ms.is_(None))
            .values(ended_ms=ledger.clock(connection))
        )


def unended(ledger: Ledger) -> list[Owner]:
    """Every owner that has not said that it ended; whether it still runs is for `liveness` to tell."""
    query = sa.select(
        HostOwner.id,
        HostOwner.host,
        HostOwner.boot_id,
        HostOwner.pid_namespace,
        HostOwner.pid,
        HostOwner.pid_started,
    ).where(HostOwner.ended_ms.is_(None))
    with ledger.reading() as connection:
        rows = connection.execute(query).all()
    return [
        Owner(row.id, ProcessIdentity(row.host, row.boot_id, row.pid_namespace, row.pid, row.pid_started))
        for row in rows
    ]


def holders(ledger: Ledger) -> dict[str, tuple[Owner, bool]]:
    """Every owner that has live attempts, by id, and whether it has said that it ended."""
    query = (
        sa.select(HostOwner)
        .where(HostOwner.id.in_(sa.select(Attempt.owner_id).where(Attempt.state == AttemptState.LIVE)))
        .with_only_columns(
            HostOwner.id,
            HostOwner.host,
            HostOwner.boot_id,
            HostOwner.pid_namespace,
            HostOwner.pid,
            HostOwner.pid_started,
            HostOwner.ended_ms,
        )
    )
    with ledger.reading() as connection:
        rows = connection.execute(query).all()
    return {
        row.id: (
            Owner(
                row.id, ProcessIdentity(row.host, row.boot_id, row.pid_namespace, row.pid, row.pid_started)
            ),
            row.ended_ms is not None,
        )
        for row in rows
    }


def dead_holders(ledger: Ledger) -> list[str]:
    """Owners with live attempts that certainly do not run any more (this process's own rows included
    once they are retired)."""
    return sorted(
        owner.id
        for owner, ended in holders(ledger).values()
        if ended or liveness(owner.process) is Liveness.DEAD
    )
