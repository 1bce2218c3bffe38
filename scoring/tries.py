"""The only input of every methodology: what was planned, and the verified tries.

`VerifiedTry` is built in one place only, `orchestrator.handover`, from certificates that verified; a
test walks the syntax trees and refuses any other caller of `VerifiedTry.attest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scoring.errors import MalformedInputError
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason


class CertificateState(StrEnum):
    """What verification said of the certificate behind a try."""

    VALID = "valid"
    MISSING = "missing"
    INVALID = "invalid"


class SandboxLevel(StrEnum):
    """How far the platform saw the attempt (certificates.md 3.2)."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    SIMULATED = "simulated"


@dataclass(frozen=True)
class Plan:
    """The opening statement as the scorer needs it: which tries were promised before the first one ran.

    `pack_tasks` are the pack's own ordered task ids; `planned` maps task id to planned tries (>= 0, tasks
    of the pack that the screening left out have 0). `declared_tries` is the pack's number of tries per
    task. `judge` is `programmatic` or `<model>@YYYY-MM-DD`.
    """

    screening_id: str
    agent_id: str
    agent_digest: str
    pack_id: str
    pack_version: str
    pack_digest: str
    pack_tasks: tuple[str, ...]
    planned: dict[str, int]
    declared_tries: int
    judge: str
    pack_is_current: bool
    withheld_tasks: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.pack_tasks:
            raise MalformedInputError("empty-pack", "a pack has at least one task")
        if len(set(self.pack_tasks)) != len(self.pack_tasks):
            raise MalformedInputError("duplicate-task", "the pack lists a task twice")
        if set(self.planned) - set(self.pack_tasks):
            raise MalformedInputError("foreign-task", "a planned task is not in the pack")
        for task, count in self.planned.items():
            if not _whole(count, least=0):
                raise MalformedInputError("planned-count", f"task {task} plans {count} tries")
        if not _whole(self.declared_tries, least=1):
            raise MalformedInputError("declared-tries", "a pack declares at least one try per task")
        if self.withheld_tasks - set(self.pack_tasks):
            raise MalformedInputError("foreign-task", "a withheld task is not in the pack")


def _whole(value: object, least: int) -> bool:
    """Whether `value` is an int (never a bool or a float) of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


_SEAL: Final = object()


class VerifiedTry:
    """The last attempt of one try slot, as its certificate states it (immutable).

    `cost_nusd` is integer nano-USD or None where unknown (never 0 for unknown); `wall_ms` is hand-off to
    end. `certificate_digest` is None exactly when `certificate` is `missing`.
    """

    __slots__ = (
        "agent_digest",
        "agent_id",
        "attempt",
        "certificate",
        "certificate_digest",
        "cost_nusd",
        "index",
        "level",
        "outcome",
        "pack_digest",
        "public",
        "reason",
        "screening_id",
        "task_id",
        "wall_ms",
    )

    screening_id: str
    agent_id: str
    agent_digest: str
    pack_digest: str
    task_id: str
    index: int
    attempt: int
    outcome: Outcome
    reason: Reason
    certificate: CertificateState
    certificate_digest: str | None
    level: SandboxLevel
    public: bool
    cost_nusd: int | None
    wall_ms: int

    def __init__(self, seal: object, **fields: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a VerifiedTry is built by the verifier's handover only")
        for name in self.__slots__:
            object.__setattr__(self, name, fields[name])
        self._check()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a VerifiedTry cannot be changed")

    def _check(self) -> None:
        if OUTCOME_OF[self.reason] is not self.outcome:
            raise MalformedInputError("reason-outcome", f"{self.reason} is not a reason for {self.outcome}")
        for name in ("index", "attempt", "wall_ms", "cost_nusd"):
            value = getattr(self, name)
            least = 1 if name in ("index", "attempt") else 0
            if name == "cost_nusd" and value is None:
                continue
            if not _whole(value, least):
                raise MalformedInputError("number", f"{name} is {value!r}")
        if (self.certificate_digest is None) != (self.certificate is CertificateState.MISSING):
            raise MalformedInputError("certificate", "a digest goes with every certificate and with no other")

    @classmethod
    def attest(
        cls,
        *,
        screening_id: str,
        agent_id: str,
        agent_digest: str,
        pack_digest: str,
        task_id: str,
        index: int,
        attempt: int,
        outcome: Outcome,
        reason: Reason,
        certificate: CertificateState,
        certificate_digest: str | None,
        level: SandboxLevel,
        public: bool,
        cost_nusd: int | None,
        wall_ms: int,
    ) -> VerifiedTry:
        """Build one from verified facts; called by `orchestrator.handover` and by tests only."""
        fields = {name: value for name, value in locals().items() if name not in ("cls",)}
        return cls(_SEAL, **fields)
