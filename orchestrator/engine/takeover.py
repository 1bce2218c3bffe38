"""Attempts whose process is gone: void them, at once where this host can see it, else after a lease."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from orchestrator.engine.base import Callbacks
from orchestrator.engine.runner import Result, end_of_salvage, finish
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import Liveness, dead_holders, holders, liveness, this_process
from orchestrator.ledger.queries import live_attempts
from orchestrator.ledger.transitions import Claim, claims_of
from orchestrator.observations import Observations


class LeaseWatch:
    """Leases of owners that cannot be seen from here; with `everybody` also of processes that can.

    A lease may be called expired only by somebody who has watched it stand still for a full lease, awake
    and connected (reference/distribution.md 4.4): after a sleep of this machine or an outage of the database
    every lease looks old and none of them may be voided for it. So a gap of half a lease between two looks
    begins the watch again. A process that is seen to be there and does not renew its lease is frozen: it may
    be in the way for ever, and only other hosts' reapers and, with `everybody`, this one's can tell.
    """

    def __init__(
        self, lease_ms: int, monotonic: Callable[[], float] = time.monotonic, *, everybody: bool = False
    ) -> None:
        self._lease_s = lease_ms / 1000
        self._monotonic = monotonic
        self._everybody = everybody
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked: float | None = None

    def expired(self, ledger: Ledger) -> set[str]:
        """Ids of live attempts whose lease has run out under this watch; call it at every beat."""
        unseen = {
            owner.id
            for owner, ended in holders(ledger).values()
            if not ended and (self._everybody or liveness(owner.process) is Liveness.UNKNOWN)
        }
        now = self._monotonic()
        if self._looked is None or now - self._looked > self._lease_s / 2:
            self._seen = {}
        self._looked = now
        watched: dict[str, tuple[int, float]] = {}
        for attempt_id, lease_until_ms, owner_id in live_attempts(ledger):
            if owner_id in unseen:
                before = self._seen.get(attempt_id)
                same = before is not None and before[0] == lease_until_ms
                watched[attempt_id] = before if before is not None and same else (lease_until_ms, now)
        self._seen = watched
        return {attempt_id for attempt_id, (_, since) in watched.items() if now - since > self._lease_s}

    def lease_of(self, attempt_id: str) -> int | None:
        """The end of the lease, in ms, that was watched standing still; None for one not watched."""
        seen = self._seen.get(attempt_id)
        return None if seen is None else seen[0]


def take_over(ledger: Ledger, callbacks: Callbacks, watch: LeaseWatch, *, who: str) -> list[Result]:
    """Void every attempt that certainly has no worker any more; returns what became of each.

    One lock per host keeps its processes from salvaging the same attempt; the token keeps its end from being
    written twice in any case. A worker that came back and renewed its lease is left alone: before anything
    of it is touched, and once more in the statement that voids. No back-off: the fault is no sign of a busy
    host.
    """
    dead, expired = dead_holders(ledger), watch.expired(ledger)
    if not dead and not expired:
        return []
    with ledger.exclusive(f"take over {this_process().host}"):
        results = [
            _void(ledger, callbacks, held, who, None) for held in claims_of(ledger, dead_holders(ledger))
        ]
        for attempt_id, lease_until_ms, owner_id in live_attempts(ledger) if expired else ():
            if attempt_id in expired and lease_until_ms == watch.lease_of(attempt_id):
                lost = [one for one in claims_of(ledger, [owner_id]) if one.attempt_id == attempt_id]
                results += [_void(ledger, callbacks, held, who, lease_until_ms) for held in lost]
        return results


def _void(ledger: Ledger, callbacks: Callbacks, held: Claim, who: str, lease_ms: int | None) -> Result:
    found = callbacks.salvage(held, Observations(worker_lost=True))
    found = replace(found, observations=replace(found.observations, worker_lost=True))
    end = end_of_salvage(found, callbacks.metered(held))
    return finish(ledger, held, end, back_off_ms=0, who=who, lost=True, if_lease_until_ms=lease_ms)
