"""The line between an engine and one running attempt."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.engine.base import PhaseEntered, Stop
from orchestrator.ledger.transitions import Claim
from scoring.vocabulary import Phase


class Control:
    """`AttemptControl` of one attempt; `stop` may be called from any thread."""

    def __init__(self, held: Claim, notify: Callable[[PhaseEntered], None] | None) -> None:
        self.held = held
        self.current = Phase.PREPARE
        self.why: Stop | None = None
        self._notify = notify

    def phase(self, phase: Phase) -> None:
        """The attempt enters `phase`; the ledger learns it with the next heartbeat."""
        self.current = phase
        if self._notify is not None:
            self._notify(PhaseEntered(self.held, phase))

    def cancelled(self) -> bool:
        """Whether the attempt must stop."""
        return self.why is not None

    def stop(self, why: Stop) -> None:
        """Tell the attempt to stop; a lost token outweighs every other reason."""
        if self.why is None or why is Stop.TOKEN:
            self.why = why
