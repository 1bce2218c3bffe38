"""Room that a host keeps for a large try, so that small ones do not take it away piece by piece for ever.

A try that a host had no room for is noted there, one at a time. After `PATIENCE_MS` the host claims nothing
any more that would be in its way, until it fits: at the latest when what runs there has ended, for the first
try of a host always fits. Then the next one is noted and the others have `PATIENCE_MS` again. What is noted
is no promise to a process: any worker of the host may claim the try, and any other host that has room. It is
over when the try is not queued any more, and when the try did not ask again for `GRACE_MS` after it would
have fitted: its host may be gone, or serve its queue no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from orchestrator.ledger.models import Attempt, Host, HostOwner, KeptRoom, TrySlot, Worker
from orchestrator.ledger.states import AttemptState, SlotState

PATIENCE_MS: Final = 120_000
"""How long a try waits for room before the host keeps it: small ones may go on meanwhile."""

GRACE_MS: Final = 600_000
"""Over a deadline to the end that the engine forces (300 s), and two sweeps for a message that was lost."""


@dataclass(frozen=True)
class Size:
    """Cores in thousandths and memory in MiB: of a host, of a try, or of all that runs."""

    cpus_milli: int
    memory_mb: int

    def __add__(self, other: Size) -> Size:
        return Size(self.cpus_milli + other.cpus_milli, self.memory_mb + other.memory_mb)

    def holds(self, taken: Size, more: Size) -> bool:
        """Whether `more` fits beside `taken`; the first try of a host always fits. Pure.

        Needs are rounded up to choose a queue, so that a single one may pass the host by less than twice.
        """
        if taken == Size(0, 0):
            return True
        whole = taken + more
        return whole.cpus_milli <= self.cpus_milli and whole.memory_mb <= self.memory_mb


@dataclass(frozen=True)
class Kept:
    """The try that is noted at a host, and what it needs."""

    slot_id: str
    need: Size
    since_ms: int
    until_ms: int

    def holds_back(self, now_ms: int) -> bool:
        """Whether others must leave room for it now."""
        return self.since_ms + PATIENCE_MS <= now_ms < self.until_ms


class Verdict(Enum):
    """May a try be claimed on a host now? `FULL`: no room beside what runs; `KEPT`: in another one's way."""

    FITS = "fits"
    FULL = "full"
    KEPT = "kept"


def judge(room: Size, taken: Size, slot_id: str, need: Size, kept: Kept | None, now_ms: int) -> Verdict:
    """Decide on one try; pure. What fits beside the try that waits is not in its way."""
    if not room.holds(taken, need):
        return Verdict.FULL
    if kept is None or kept.slot_id == slot_id or not kept.holds_back(now_ms):
        return Verdict.FITS
    return Verdict.FITS if room.holds(taken + need, kept.need) else Verdict.KEPT


def good_until(since_ms: int, now_ms: int, last_deadline_ms: int) -> int:
    """How long the note of a try holds that was refused just now: until it has room for sure, and a while."""
    return max(since_ms + PATIENCE_MS, now_ms, last_deadline_ms) + GRACE_MS


def kept(connection: Connection, host_name: str, now_ms: int) -> Kept | None:
    """What is noted at a host and still holds; what does not is removed. The caller holds the host's lock."""
    query = (
        sa.select(KeptRoom.slot_id, KeptRoom.since_ms, KeptRoom.until_ms)
        .add_columns(TrySlot.state, TrySlot.not_before_ms, TrySlot.cpus_milli, TrySlot.memory_mb)
        .join(TrySlot, TrySlot.id == KeptRoom.slot_id)
        .where(KeptRoom.host_name == host_name)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    # A re-run that pauses is queued too, and may not start yet.
    if row.state != SlotState.QUEUED or row.not_before_ms > now_ms or row.until_ms <= now_ms:
        drop(connection, host_name)
        return None
    return Kept(row.slot_id, Size(row.cpus_milli, row.memory_mb), row.since_ms, row.until_ms)


def note(connection: Connection, host_name: str, slot_id: str, known: Kept | None, now_ms: int) -> None:
    """The try was refused for want of room: note it, or that it still waits.

    Nothing is noted where the host drains or waits for another one, or where another host that does not drain
    waits for this one. The caller holds the host's lock.
    """
    draining = sa.select(Host.name).where(Host.draining)
    if known is not None and known.slot_id != slot_id:
        return
    if connection.scalar(draining.where(Host.name == host_name)) is not None:
        return
    since = now_ms if known is None else known.since_ms
    until = good_until(since, now_ms, _last_deadline(connection, host_name))
    if known is not None:
        if until != known.until_ms:
            mine = sa.update(KeptRoom).where(KeptRoom.host_name == host_name)
            connection.execute(mine.values(until_ms=until))
        return
    over = sa.or_(KeptRoom.until_ms <= now_ms, KeptRoom.host_name.in_(draining))
    connection.execute(sa.delete(KeptRoom).where(KeptRoom.slot_id == slot_id, over))
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = {"host_name": host_name, "slot_id": slot_id, "since_ms": since, "until_ms": until}
    connection.execute(dialect.insert(KeptRoom).values(row).on_conflict_do_nothing())


def drop(connection: Connection, host_name: str) -> None:
    """The host waits for nobody."""
    connection.execute(sa.delete(KeptRoom).where(KeptRoom.host_name == host_name))


def _last_deadline(connection: Connection, host_name: str) -> int:
    """When the last of the host's live attempts must have ended; 0 for none."""
    query = (
        sa.select(sa.func.max(Attempt.deadline_ms))
        .join(HostOwner, HostOwner.id == Attempt.owner_id)
        .join(Worker, Worker.id == HostOwner.worker_id)
        .where(Attempt.state == AttemptState.LIVE, Worker.host_name == host_name)
    )
    return int(connection.scalar(query) or 0)
