"""Is a process of a campaign healthy? The ledger and the host are asked; the process itself need not answer.

A main process that answers says nothing: it answers while its children are gone, and a container that is up
hides a keeper that hangs (reference/distribution.md section 8). So what counts are facts: the beat that the
keeper wrote, the children that the host shows, the rounds of sweeper and reaper, and claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orchestrator.engine.celery.times import Times
from orchestrator.ledger.hosts import SILENT_BEATS, WorkerRole
from orchestrator.ledger.owners import Liveness, children_of, liveness
from orchestrator.ledger.presence import Presence

NO_CLAIM_MS: Final = 300_000
"""A try that waits so long beside a free place is not being claimed: the time of the shipped alert."""


@dataclass(frozen=True)
class Check:
    """One fact, whether it is as it must be, and what was seen."""

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class Seen:
    """What the host shows of the process; `children` is None where it cannot be seen from here."""

    liveness: Liveness
    children: int | None


def look(presence: Presence) -> Seen:
    """Look at the process and at its living children, if it is one of this machine and pid namespace."""
    alive = liveness(presence.process)
    if alive is not Liveness.ALIVE:
        return Seen(alive, None)
    return Seen(alive, children_of(presence.process.pid))


def judge(
    presence: Presence | None, seen: Seen | None, times: Times, *, draining: bool = False
) -> list[Check]:
    """Every check by name; healthy is who passes all. Pure.

    `presence` is None where the ledger knows no such process: on a host that is `draining` a worker waits
    before it enters. Times are of the database's clock.
    """
    if presence is None or seen is None:
        if draining:
            return [Check("registered", True, "the host is draining: its worker waits for `undrain`")]
        return [Check("registered", False, "the ledger knows no such process of this host")]
    view, now = presence.view, presence.now_ms
    silent_ms = SILENT_BEATS * times.beat_ms
    checks = [
        Check("registered", True, f"{view.role} {view.id}"),
        Check("alive", seen.liveness is not Liveness.DEAD, seen.liveness),
        _recent("beat", now, view.beaten_ms, silent_ms),
        # A round is told with the next beat; the sweeper's is not told while the broker does not answer.
        _recent("reaped", now, view.reaped_ms, times.reap_ms + silent_ms),
        _recent("swept", now, view.swept_ms, times.sweep_ms + silent_ms),
    ]
    if view.role is WorkerRole.WORKER:
        checks += [_children(presence, seen), _claims(presence)]
    return checks


def _recent(name: str, now: int, at: int | None, within_ms: int) -> Check:
    if at is None:
        return Check(name, False, "never")
    age = max(0, now - at)
    return Check(name, age <= within_ms, f"{age / 1000:.0f} s ago, at most {within_ms / 1000:.0f} s")


def _children(presence: Presence, seen: Seen) -> Check:
    view = presence.view
    there = view.children if seen.children is None else seen.children
    return Check("children", there >= view.slots, f"{there} of {view.slots}")


def _claims(presence: Presence) -> Check:
    """Claims happen, or nothing waits, or nothing could be taken anyway."""
    view, waiting = presence.view, presence.waiting_ms
    if waiting is None or waiting < NO_CLAIM_MS:
        return Check("claims", True, "nothing waits for long")
    if view.draining or view.running >= view.slots:
        return Check("claims", True, "draining" if view.draining else "every place is taken")
    idle = presence.now_ms - (view.started_ms if view.claimed_ms is None else view.claimed_ms)
    detail = f"a try waits for {waiting / 1000:.0f} s, the last claim was {idle / 1000:.0f} s ago"
    return Check("claims", idle < NO_CLAIM_MS, detail)
