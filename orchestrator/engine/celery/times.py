"""The times of the engine of many hosts, in one place; drills shorten them, nothing else differs."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.engine.base import Settings


@dataclass(frozen=True)
class Times:
    """Production values of reference/distribution.md 4.2; a lease must outlast several beats.

    - `lease_ms`, `beat_ms`: how long an attempt is believed in without a sign, and how often there is one.
    - `dispatch_ms`: how often free places are looked for, and `window_per_slot`: how many messages wait for
      each place meanwhile. Tries that are shorter than `dispatch_ms / window_per_slot` leave places idle.
    - `sweep_ms`: a queued slot that was told longer ago, in a queue that is too short, is told again.
    - `reap_ms`: how often lost attempts are looked for; less than half a lease (`LeaseWatch`).
    - `tidy_ms`: how often containers without a live attempt are looked for.
    - `call_leases`: model calls may start while the last heartbeat is younger than so many leases. More than
      three, or an outage of the database that voids nothing else would stop agents; no more than that, as a
      host that is cut off pays for a try that somebody else has begun again.
    - `persist_ms`: pause between two tries to record an end while the database is away.
    - `margin_s`: what a message's hard time limit adds to all the time of its attempt.
    """

    lease_ms: int = 120_000
    beat_ms: int = 20_000
    dispatch_ms: int = 1_000
    sweep_ms: int = 60_000
    reap_ms: int = 5_000
    tidy_ms: int = 60_000
    back_off_ms: int = 2_000
    persist_ms: int = 1_000
    call_leases: int = 4
    margin_s: int = 300
    window_per_slot: int = 2

    def engine(self) -> Settings:
        """What one attempt needs of it."""
        return Settings(
            lease_ms=self.lease_ms,
            beat_ms=self.beat_ms,
            back_off_ms=self.back_off_ms,
            persist_ms=self.persist_ms,
            call_leases=self.call_leases,
        )
