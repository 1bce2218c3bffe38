"""The line between an engine and one running attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestrator.engine.base import PhaseEntered, Stop
from orchestrator.ledger.transitions import Claim
from scoring.vocabulary import Phase


class Control:
    """`AttemptControl` of one attempt; `stop` may be called from any thread.

    Its deadline is kept on the monotonic clock: a step of the wall clock, here or of the database, must not
    end an attempt (reference/sandbox.md section 5, row 11).
    """

    def __init__(
        self, held: Claim, notify: Callable[[PhaseEntered], None] | None, *, calls_ms: int | None = None
    ) -> None:
        """`calls_ms`: model calls may start for so long after the last heartbeat that got through."""
        self.held = held
        self.current = Phase.PREPARE
        self.why: Stop | None = None
        self._notify = notify
        now = time.monotonic()
        self._until = now + (held.deadline_ms - held.claimed_ms) / 1000
        self._calls_s = None if calls_ms is None else calls_ms / 1000
        self._renewed = now

    def phase(self, phase: Phase) -> None:
        """The attempt enters `phase`; the ledger learns it with the next heartbeat."""
        self.current = phase
        if self._notify is not None:
            self._notify(PhaseEntered(self.held, phase))

    def renewed(self, at: float) -> None:
        """The lease was renewed by a heartbeat that set out at `at`, in seconds of `time.monotonic`."""
        self._renewed = at

    def calls_until(self) -> float | None:
        """See `AttemptControl`: the last heartbeat that got through, and the time it is good for."""
        return None if self._calls_s is None else self._renewed + self._calls_s

    def keep_deadline(self) -> None:
        """Stop the attempt if all its time is over; every heartbeat asks, whether it got through or not."""
        if time.monotonic() > self._until:
            self.stop(Stop.DEADLINE)

    def cancelled(self) -> bool:
        """Whether the attempt must stop."""
        return self.why is not None

    def stop(self, why: Stop) -> None:
        """Tell the attempt to stop; a lost token outweighs every other reason."""
        if self.why is None or why is Stop.TOKEN:
            self.why = why
