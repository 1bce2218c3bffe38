"""What every engine offers, what it is given, and what it tells a display.

An engine moves slots through claim, run and record. It knows neither Docker nor keys: the attempt, the
order of an attempt, the evidence of a lost one and the certificate are callbacks of its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from orchestrator.attempts import AttemptFunction, AttemptOrder
from orchestrator.ledger.transitions import Claim
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome, Phase


@dataclass(frozen=True)
class Salvage:
    """What the host still shows of an attempt that gave no report of its own.

    `observations` starts from what the engine saw and may be added to; `manifest_digest` names the
    evidence that could be saved and stored, None when there is none.
    """

    observations: Observations
    manifest_digest: str | None = None


@dataclass(frozen=True)
class Planned:
    """A screening starts for the first time."""

    screening_id: str
    slots: int


@dataclass(frozen=True)
class Resumed:
    """A screening goes on; `lost` attempts were taken over from a dead process just now."""

    screening_id: str
    recorded: int
    uncountable: int
    lost: int
    to_go: int
    used_nusd: int
    cap_nusd: int | None


@dataclass(frozen=True)
class Waiting:
    """A screening could start a try, but `provider` has `most` of them at a time; said once a standstill."""

    screening_id: str
    provider: str
    most: int


@dataclass(frozen=True)
class Started:
    """An attempt begins."""

    claim: Claim


@dataclass(frozen=True)
class PhaseEntered:
    """A running attempt enters a phase."""

    claim: Claim
    phase: Phase


@dataclass(frozen=True)
class Ended:
    """An attempt was recorded: it counts for its slot."""

    claim: Claim
    outcome: Outcome
    reason: str
    wall_ms: int | None


@dataclass(frozen=True)
class Voided:
    """An attempt does not count; `requeued` tells whether its slot will be run again.

    `outcome` is None for an attempt that the operator stopped. `lost` marks one that was taken over.
    """

    claim: Claim
    outcome: Outcome | None
    reason: str
    requeued: bool
    lost: bool = False


@dataclass(frozen=True)
class Refused:
    """The ledger took no record from this attempt: its token had been superseded."""

    claim: Claim


@dataclass(frozen=True)
class Draining:
    """First interrupt: nothing new is started, `running` attempts may end."""

    running: int


@dataclass(frozen=True)
class Cancelling:
    """Second interrupt: `running` attempts are told to stop."""

    running: int


@dataclass(frozen=True)
class Drained:
    """The last running attempt has ended after an interrupt."""

    still_open: int


@dataclass(frozen=True)
class Left:
    """The operator stopped watching; workers go on with `still_open` tries."""

    still_open: int


@dataclass(frozen=True)
class Closed:
    """A screening has come to its end."""

    screening_id: str
    state: str


Progress: TypeAlias = (
    Planned
    | Resumed
    | Waiting
    | Started
    | PhaseEntered
    | Ended
    | Voided
    | Refused
    | Draining
    | Cancelling
    | Drained
    | Left
    | Closed
)


class Stop(StrEnum):
    """Why a running attempt is told to stop."""

    OPERATOR = "operator"
    SCREENING = "screening"
    TOKEN = "token"
    DEADLINE = "deadline"


@dataclass(frozen=True)
class Settings:
    """Times of an engine, in milliseconds (production values of reference/distribution.md 4.2).

    A lease must outlast several beats: an attempt whose lease ran out may be taken by somebody else.

    `idle_ms` is how long an idle worker waits at most when only another process can change anything.
    `persist_ms` is how long to wait before an end is recorded once more when the database does not answer;
    0 raises at once.

    `call_leases`: an attempt may start model calls while its last heartbeat is younger than so many leases.
    """

    lease_ms: int = 120_000
    beat_ms: int = 20_000
    idle_ms: int = 1_000
    back_off_ms: int = 2_000
    persist_ms: int = 0
    call_leases: int = 4

    @property
    def calls_ms(self) -> int:
        """How long one heartbeat is good for model calls."""
        return self.call_leases * self.lease_ms


def _nothing_left(_held: Claim, seen: Observations) -> Salvage:
    return Salvage(seen)


def _nothing_metered(_held: Claim) -> int | None:
    return None


def _always_ready() -> bool:
    return True


def _always_fit() -> None:
    """Nobody looks at the host."""


@dataclass(frozen=True)
class Callbacks:
    """What the caller supplies.

    `attempt`, `order_for`, `metered` and, for an attempt that raised, `salvage` run in worker threads;
    everything else in the thread that called `run`.

    - `certify` gets the id of an attempt that ended with an outcome and has no certificate: in the order
      of ending, and for those left over from an earlier run in order of slot and attempt. It must store
      the certificate itself.
    - `salvage` is asked, before it is voided, about an attempt whose worker is gone
      (`observations.worker_lost`) or whose function raised (`observations.engine_error`). It removes what
      the attempt left running and stores what evidence there is. Naming `host_shows_overrun` together with
      evidence makes it the agent's failure (transition 8).
    - `admit` is asked before every claim, in worker threads; `HostUnfitError` lets what runs end and starts
      nothing more.
    - `ready` is asked before a message is served: what an attempt needs of its host is there now. A host that
      is not ready claims nothing, or its next claims would use up every re-run of the tries that it lost.
    - `metered` tells what an attempt cost so far in nano-USD, None when nothing was metered.
    """

    attempt: AttemptFunction
    order_for: Callable[[Claim], AttemptOrder]
    certify: Callable[[str], None] | None = None
    progress: Callable[[Progress], None] | None = None
    salvage: Callable[[Claim, Observations], Salvage] = _nothing_left
    metered: Callable[[Claim], int | None] = _nothing_metered
    admit: Callable[[], None] = _always_fit
    ready: Callable[[], bool] = _always_ready


@dataclass(frozen=True)
class RunResult:
    """How `run` ended: state of every screening, and whether an interrupt ended it early."""

    states: Mapping[str, str]
    interrupted: bool
    attempts: int


class Engine(Protocol):
    """Runs screenings to their end, or until it is interrupted."""

    def run(self, screening_ids: Sequence[str], parallel: int) -> RunResult:
        """Run every open slot of the screenings, at most `parallel` at a time, sharing fairly."""

    def interrupt(self) -> None:
        """First call: drain. Second: stop running attempts. Third: leave at once."""
