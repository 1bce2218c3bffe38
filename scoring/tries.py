"""The only input of every methodology: what was planned, and the verified tries.

`VerifiedTry` is built in one place only, `orchestrator.handover`, from certificates that verified; a
test walks the syntax trees and refuses any other caller of `VerifiedTry.attest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.errors import MalformedInputError
from scoring.facts import Conditions, ModelUse, Population, PriceSheet, Provenance, TaskTags
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

    The fields after `withheld_tasks` are None where they are not known: the agent's version and declared
    models, the conditions (S4-28, S4-33), what the pack says of its tasks (S4-17, S4-22; tasks that it does
    not tag are absent), and whether the tasks are a benchmark pack (S3-5).
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
    agent_version: str | None = None
    models: tuple[ModelUse, ...] | None = None
    conditions: Conditions | None = None
    tags: dict[str, TaskTags] | None = None
    population: Population | None = None

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
        if self.tags is not None and set(self.tags) - set(self.pack_tasks):
            raise MalformedInputError("foreign-task", "a tagged task is not in the pack")
        if self.population is not None and not isinstance(self.population, Population):
            raise MalformedInputError("population", f"{self.population!r:.60} is not a population")

    @property
    def provenance(self) -> Provenance | None:
        """The label of the screening's results (S4-1); None when the conditions are not known."""
        return None if self.conditions is None else self.conditions.provenance


def _whole(value: object, least: int) -> bool:
    """Whether `value` is an int (never a bool or a float) of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


_SEAL: Final = object()

_ORDINALS: Final = ("index", "attempt")
_TOKENS: Final = ("requests", "input_tokens", "cached_input_tokens", "output_tokens")
_MONEY: Final = ("cost_nusd", "standard_cost_nusd", "paid_tool_calls_nusd")
_CHECKS: Final = ("checks_passed", "checks_total")
_TIMES: Final = ("handed_off_unix_s", "finished_unix_s")
_OPTIONAL_COUNTS: Final = (*_TOKENS, *_MONEY, "steps", *_CHECKS, *_TIMES)


class VerifiedTry:
    """The last attempt of one try slot, as its certificate states it (immutable).

    Visibility is `public`; `wall_ms` is hand-off to end; `certificate_digest` is None exactly when
    `certificate` is `missing`. All that follows is None where it is not known, never 0 and never guessed:

    - money, integer nano-USD: `cost_nusd` are the model calls of the agent at the list prices of
      `price_sheet` on the run date, `standard_cost_nusd` the same without long-context and time-of-day
      rates, `paid_tool_calls_nusd` its paid tools; tokens: `input_tokens` contain
      `cached_input_tokens`. `metered` says whether usage was observed; 0 is legal for a metered try only.
    - `steps`: execution steps (tool calls); `reward`: the grader's number, exact, on the grader's own scale;
      `checks_passed` of `checks_total` hidden checks.
    - `handed_off_unix_s` and `finished_unix_s`: UTC wall clock, for order and dates only.
    - `provenance`, `pack_version`, `agent_version`, `models`, `runner_version`: what the result is of.
    """

    __slots__ = (
        "agent_digest",
        "agent_id",
        "agent_version",
        "attempt",
        "cached_input_tokens",
        "certificate",
        "certificate_digest",
        "checks_passed",
        "checks_total",
        "cost_nusd",
        "finished_unix_s",
        "handed_off_unix_s",
        "index",
        "input_tokens",
        "level",
        "metered",
        "models",
        "outcome",
        "output_tokens",
        "pack_digest",
        "pack_version",
        "paid_tool_calls_nusd",
        "price_sheet",
        "provenance",
        "public",
        "reason",
        "requests",
        "reward",
        "runner_version",
        "screening_id",
        "standard_cost_nusd",
        "steps",
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
    provenance: Provenance | None
    pack_version: str | None
    agent_version: str | None
    models: tuple[ModelUse, ...] | None
    runner_version: str | None
    handed_off_unix_s: int | None
    finished_unix_s: int | None
    metered: bool | None
    requests: int | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    standard_cost_nusd: int | None
    paid_tool_calls_nusd: int | None
    price_sheet: PriceSheet | None
    steps: int | None
    reward: Fraction | None
    checks_passed: int | None
    checks_total: int | None

    def __init__(self, seal: object, **fields: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a VerifiedTry is built by the verifier's handover only")
        for name in self.__slots__:
            object.__setattr__(self, name, fields[name])
        self._check()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a VerifiedTry cannot be changed")

    @property
    def list_cost_nusd(self) -> int | None:
        """Model calls of the evaluated agent at the one list price, nothing else (S1-26 to S1-28)."""
        return self.standard_cost_nusd

    @property
    def run_date_cost_nusd(self) -> int | None:
        """Model calls at list price on the run date plus paid tool calls (S4-11); None if one is unknown."""
        if self.cost_nusd is None or self.paid_tool_calls_nusd is None:
            return None
        return self.cost_nusd + self.paid_tool_calls_nusd

    def _check(self) -> None:
        if OUTCOME_OF[self.reason] is not self.outcome:
            raise MalformedInputError("reason-outcome", f"{self.reason} is not a reason for {self.outcome}")
        for name in _ORDINALS:
            _require(name, getattr(self, name), least=1)
        _require("wall_ms", self.wall_ms, least=0)
        for name in _OPTIONAL_COUNTS:
            if getattr(self, name) is not None:
                _require(name, getattr(self, name), least=0)
        if (self.certificate_digest is None) != (self.certificate is CertificateState.MISSING):
            raise MalformedInputError("certificate", "a digest goes with every certificate and with no other")
        self._check_usage()
        self._check_grading()
        self._check_times()

    def _check_usage(self) -> None:
        if self.metered is not None and not isinstance(self.metered, bool):
            raise MalformedInputError("metered", f"{self.metered!r:.60} is neither yes nor no")
        if self.metered is False and any(getattr(self, name) is not None for name in (*_TOKENS, *_MONEY)):
            raise MalformedInputError("unmetered-figures", "figures without metering: unknown is None")
        if self.metered is not True and 0 in (getattr(self, name) for name in _MONEY):
            raise MalformedInputError("zero-cost", "a cost of 0 is known of a metered try only")
        cached, tokens = self.cached_input_tokens, self.input_tokens
        if cached is not None and (tokens is None or cached > tokens):
            raise MalformedInputError("cached-above-input", f"{cached} cached of {tokens} input tokens")

    def _check_grading(self) -> None:
        if self.reward is not None and not isinstance(self.reward, Fraction):
            raise MalformedInputError("number", f"reward is {self.reward!r:.60}, not an exact number")
        passed, total = self.checks_passed, self.checks_total
        if passed is None and total is None:
            return
        if passed is None or total is None or passed > total:
            raise MalformedInputError("check-count", f"{passed} checks passed of {total}")

    def _check_times(self) -> None:
        begun, ended = self.handed_off_unix_s, self.finished_unix_s
        if begun is not None and ended is not None and ended < begun:
            raise MalformedInputError("time-order", "finished before it was handed off")

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
        provenance: Provenance | None = None,
        pack_version: str | None = None,
        agent_version: str | None = None,
        models: tuple[ModelUse, ...] | None = None,
        runner_version: str | None = None,
        handed_off_unix_s: int | None = None,
        finished_unix_s: int | None = None,
        metered: bool | None = None,
        requests: int | None = None,
        input_tokens: int | None = None,
        cached_input_tokens: int | None = None,
        output_tokens: int | None = None,
        standard_cost_nusd: int | None = None,
        paid_tool_calls_nusd: int | None = None,
        price_sheet: PriceSheet | None = None,
        steps: int | None = None,
        reward: Fraction | None = None,
        checks_passed: int | None = None,
        checks_total: int | None = None,
    ) -> VerifiedTry:
        """Build one from verified facts; called by `orchestrator.handover` and by tests only.

        Raises `MalformedInputError`: `reason-outcome`, `number`, `certificate`, `metered`,
        `unmetered-figures`, `zero-cost`, `cached-above-input`, `check-count`, `time-order`.
        """
        fields = {name: value for name, value in locals().items() if name not in ("cls",)}
        return cls(_SEAL, **fields)


def _require(name: str, value: object, least: int) -> None:
    if not _whole(value, least):
        raise MalformedInputError("number", f"{name} is {value!r:.60}")
