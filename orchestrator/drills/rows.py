"""What a row of the fault tables is: which trouble is made, and how the try must end for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from orchestrator.ledger.states import RERUN_LIMIT
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason


class Scene(StrEnum):
    """Where a row is played."""

    PLAIN = "plain"
    """A screening in this process; its agent calls no model."""
    METERED = "metered"
    """The same with an agent that calls a model of a scripted provider through a real relay."""
    GATE = "gate"
    """The admission gate of the pack."""
    COMMAND = "command"
    """`assize screen` as a process of its own."""
    OWN_ENGINE = "own-engine"
    """The same on a second Docker engine, which is started and ended for it."""
    NOT_HERE = "not-here"
    """Cannot be produced on one machine without harm to it; `why` says so."""


WANT_DONE: Final = (
    'if [ "$(cat /tmp/out.txt 2>/dev/null)" = done ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt"
)
"""The hidden test of most rows."""
DONE: Final = "echo done > /tmp/out.txt"
HOLD: Final = "DRILL_HOLD"
"""Set for the agent of an attempt that is to be struck: it waits until it is hit or let go."""
GO: Final = "/tmp/drill-go"
HELD: Final = f'while [ -n "${HOLD}" ] && [ ! -e {GO} ]; do sleep 0.05; done\n{DONE}'


@dataclass(frozen=True)
class Row:
    """One row.

    - `injected`: the trouble in words; `sources`: the rows of the reference tables that it produces.
    - `blow`: what the fault line does, None where agent, test or provider make the trouble themselves.
    - `blows`: how many attempts are struck. `reason`: how a struck attempt ends, and the first one where
      nothing is struck. `evidence`: observations that its decision must name. `last`: how the last one ends.
    - `work`: the agent's script; `test`: the hidden test; `wall_s`: the agent's time; `memory_mb`.
    - `service`: what a service `beside` the agent's container runs in a shell; empty for a single container.
    - `proven`: the oracle passes this grading path first. `solution`: the reference solution.
    - `seen`: observations that the attempt must show beside the decision.
    - `why`: why the row is not played here.
    """

    name: str
    injected: str
    sources: tuple[str, ...]
    scene: Scene
    reason: Reason
    evidence: tuple[str, ...]
    blow: str | None = None
    blows: int = 1
    suspect: bool = False
    last: Reason = Reason.ALL_CHECKS_PASSED
    work: str = HELD
    test: str = WANT_DONE
    solution: str = DONE
    wall_s: int = 60
    memory_mb: int = 256
    service: str = ""
    proven: bool = False
    seen: tuple[str, ...] = ()
    tries: int = 1
    why: str = ""

    @property
    def outcome(self) -> Outcome:
        """The class that the row lands in."""
        return OUTCOME_OF[self.reason]

    @property
    def faults(self) -> int:
        """Platform faults of a try of this row: each but the last one beyond the limit is run again."""
        return self.blows if self.outcome is Outcome.PLATFORM_FAULT else 0

    @property
    def uncountable(self) -> bool:
        """Whether the try ends without a result."""
        return self.faults > RERUN_LIMIT

    @property
    def attempts(self) -> int:
        """How many attempts the try has in the end: one more than it has re-runs."""
        return min(self.faults, RERUN_LIMIT) + 1

    @property
    def last_reason(self) -> Reason:
        """How the last attempt ends."""
        return self.reason if self.uncountable or not self.faults else self.last
