"""What `rate-ai-agent/1` hands out: figures shown separately, never folded into one (S4-23)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.digests import plain
from scoring.facts import Conditions, ModelUse, Provenance
from scoring.levels import GroupLevel, Level, good_at
from scoring.numbers import DASH, NANO_PER_USD, fixed, ratio, show_points, show_usd
from scoring.rate_agent_attempts import FAILURES, End
from scoring.rate_agent_composite import Composite
from scoring.rate_agent_readings import READINGS
from scoring.results import MethodologyResult, Reading

METHODOLOGY: Final = "rate-ai-agent/1"


class Status(StrEnum):
    """Whether there is a rating (S4-3)."""

    RATED = "rated"
    NOT_EVALUABLE = "not_evaluable"
    NOT_EVALUATED = "not_evaluated"


class MissingFigure(StrEnum):
    """Why a figure is a dash (G-5)."""

    NO_ATTEMPT = "no-counted-attempt"
    UNKNOWN_COST = "an-attempt-without-cost"
    NO_SUCCESS = "no-passed-attempt"
    ONE_ATTEMPT = "no-task-with-two-attempts"
    ALL_PASSED = "no-attempt-failed"
    NO_CHECKS = "no-failed-attempt-with-checks"


@dataclass(frozen=True)
class RatedFigure:
    """An exact figure, or None with its reason, and the sum behind it."""

    value: Fraction | None
    reason: MissingFigure | None
    sum: str = ""

    def line(self, name: str) -> str:
        """The figure as one line of arithmetic."""
        if self.value is None:
            return f"{name}: {DASH} ({self.reason})"
        return f"{name} = {self.sum} = {ratio(self.value)}"


@dataclass(frozen=True)
class TaskAttempts:
    """Counted attempts on one task; `slots` are all of its attempts, those that were not counted too."""

    task: str
    passed: int
    attempts: int
    slots: int

    @property
    def solved(self) -> bool:
        """Strictly more than half of its attempts pass (S4-7)."""
        return 2 * self.passed > self.attempts


@dataclass(frozen=True)
class RatedSubject:
    """What exactly was rated; a change in any of it makes a new result beside the old one (S4-29, S4-30)."""

    screening_id: str
    agent_digest: str
    agent_version: str | None
    models: tuple[ModelUse, ...] | None
    pack_id: str
    pack_version: str
    pack_digest: str
    judge: str


@dataclass(frozen=True)
class AgentRating(MethodologyResult):
    """One agent on one suite. `success` is in points 0..100, rates are shares 0..1, money exact USD, times
    exact ms. `ends` counts the counted attempts that did not pass by class, wrong output as `completed`;
    `outside` counts what was recorded and not counted, `outside_reasons` the same by reason (S4-3).
    `composite` is None unless it was asked for; `subject` and `conditions` (S4-28) where they are unknown."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    name: str
    provenance: Provenance
    subject: RatedSubject | None
    conditions: Conditions | None
    status: Status
    attempts: int
    passed: int
    tasks: tuple[TaskAttempts, ...]
    ends: tuple[tuple[End, int], ...]
    outside: tuple[tuple[End, int], ...]
    outside_reasons: tuple[tuple[str, int], ...]
    success: RatedFigure
    total_cost_usd: RatedFigure
    cost_per_task_usd: RatedFigure
    cost_per_distinct_task_usd: RatedFigure
    cost_per_success_usd: RatedFigure
    median_time_ms: RatedFigure
    failure_rate: RatedFigure
    repeatability: RatedFigure
    partial_progress: RatedFigure
    use_cases: tuple[GroupLevel, ...]
    difficulties: tuple[GroupLevel, ...]
    composite: Composite | None
    inputs_digest: str

    @property
    def tasks_attempted(self) -> int:
        """Tasks with a counted attempt (S4-6)."""
        return sum(task.attempts > 0 for task in self.tasks)

    @property
    def tasks_passed(self) -> int:
        """Tasks most of whose attempts pass (S4-7)."""
        return sum(task.solved for task in self.tasks)

    @property
    def may_rank(self) -> bool:
        """Only independent results rank or give levels (S4-2)."""
        return self.provenance is Provenance.INDEPENDENT and self.status is Status.RATED

    def is_good_at(self, *use_cases: str) -> bool:
        """The "Good at" filter (S4-21): Strong or Capable in every selected use case."""
        levels: dict[str, Level | None] = {one.group: one.level for one in self.use_cases}
        return self.may_rank and good_at(levels, use_cases)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum as text."""
        return (
            f"{self.name}: {self.provenance}, {self.status}",
            f"attempts: {self.attempts} counted, {self.passed} passed; tasks: {self.tasks_attempted} "
            f"attempted, {self.tasks_passed} passed (more than half of the attempts)",
            *(f"task {one.task}: {one.passed} of {one.attempts} attempts passed" for one in self.tasks),
            *(figure.line(name) for name, figure in self.figures()),
            "did not pass: " + _counts(self.ends),
            "not counted: "
            + _counts(self.outside)
            + "".join(f"; {reason} {number}" for reason, number in self.outside_reasons),
            *(one.arithmetic for one in (*self.use_cases, *self.difficulties)),
            *(() if self.composite is None else (self.composite.arithmetic,)),
        )

    def figures(self) -> tuple[tuple[str, RatedFigure], ...]:
        """The separate figures by name."""
        return (
            ("success", self.success),
            ("total cost", self.total_cost_usd),
            ("cost per task", self.cost_per_task_usd),
            ("cost per distinct task (alternative)", self.cost_per_distinct_task_usd),
            ("cost per success", self.cost_per_success_usd),
            ("median time", self.median_time_ms),
            ("failure rate", self.failure_rate),
            ("repeatability", self.repeatability),
            ("partial progress", self.partial_progress),
        )

    def as_data(self) -> dict[str, Any]:
        """Plain data for `--json` and pages: exact figures as `n/d`, missing null with a reason."""
        return {
            "methodology": self.methodology,
            "name": self.name,
            "provenance": self.provenance.value,
            "subject": plain(self.subject),
            "conditions": plain(self.conditions),
            "status": self.status.value,
            "may_rank": self.may_rank,
            "attempts": self.attempts,
            "passed": self.passed,
            "tasks_attempted": self.tasks_attempted,
            "tasks_passed": self.tasks_passed,
            "tasks": [plain(one) for one in self.tasks],
            "failures": [{"end": end.value, "count": number} for end, number in self.ends],
            "outside": [{"end": end.value, "count": number} for end, number in self.outside],
            "outside_reasons": [
                {"reason": reason, "count": number} for reason, number in self.outside_reasons
            ],
            "success": _shown(self.success, show_points(self.success.value), "points"),
            "total_cost": _money(self.total_cost_usd),
            "cost_per_task": _money(self.cost_per_task_usd),
            "cost_per_distinct_task": _money(self.cost_per_distinct_task_usd),
            "cost_per_success": _money(self.cost_per_success_usd),
            "median_time": _shown(self.median_time_ms, _seconds(self.median_time_ms.value), "ms"),
            "failure_rate": _percent(self.failure_rate),
            "repeatability": _percent(self.repeatability),
            "partial_progress": _percent(self.partial_progress),
            "use_cases": [_level(one) for one in self.use_cases],
            "difficulties": [_level(one) for one in self.difficulties],
            "composite": None if self.composite is None else plain(self.composite.value),
            "composite_parts": None
            if self.composite is None
            else [{"name": name, "value": plain(value)} for name, value in self.composite.parts],
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


def _counts(counts: tuple[tuple[End, int], ...]) -> str:
    if not counts:
        return "0"
    return ", ".join(f"{'wrong output' if end is End.COMPLETED else end} {number}" for end, number in counts)


def _shown(figure: RatedFigure, display: str, unit: str) -> dict[str, Any]:
    return {
        "exact": plain(figure.value),
        "display": display,
        "unit": unit,
        "reason": plain(figure.reason),
    }


def _money(figure: RatedFigure) -> dict[str, Any]:
    nano = None if figure.value is None else ratio(figure.value * NANO_PER_USD)
    return _shown(figure, show_usd(figure.value), "usd") | {"nano_usd": nano}


def _percent(figure: RatedFigure) -> dict[str, Any]:
    return _shown(figure, DASH if figure.value is None else f"{fixed(figure.value * 100, 1)}%", "share")


def _seconds(value: Fraction | None) -> str:
    return DASH if value is None else f"{fixed(value / 1000, 1)} s"


def _level(one: GroupLevel) -> dict[str, Any]:
    return {
        "group": one.group,
        "passed": one.passed,
        "attempts": one.attempts,
        "tasks": one.tasks,
        "rate": plain(one.rate),
        "level": plain(one.level),
    }


__all__ = ["FAILURES", "METHODOLOGY", "AgentRating", "MissingFigure", "RatedFigure", "Status", "TaskAttempts"]
