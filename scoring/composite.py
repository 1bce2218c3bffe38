"""`badgeia-composite/2026-07`: the headline composite over all completed runs of one agent (seed 000).

composite = 100 x (0.40 success + 0.30 execution + 0.30 cost), where execution = outcome consistency x
latency score (S0-3, S0-7). A pure function of the runs; every part is kept, so that the page can show the
sum. It is not monotone in success: one success of twenty, fast and cheap, stands above seven of twenty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.averages import mean_of
from scoring.curves import COST_CURVE, LATENCY_CURVE
from scoring.digests import digest, plain
from scoring.errors import MalformedInputError
from scoring.numbers import DASH, POINTS, fixed, ratio
from scoring.results import MethodologyResult, Reading
from scoring.runs import RUN_READINGS, Run, RunStatus, cohort

METHODOLOGY: Final = "badgeia-composite/2026-07"
POLICY: Final = "2026-07-zero-success-v1"
"""The zero-success floor (S0-11, S0-13)."""

SUCCESS_WEIGHT: Final = Fraction("0.40")
EXECUTION_WEIGHT: Final = Fraction("0.30")
COST_WEIGHT: Final = Fraction("0.30")
CONSISTENCY_GATE: Final = 5
"""Completed runs from which on outcome consistency is not neutral (S0-5, S0-6)."""
DECIMALS: Final = 2
"""Places of the published composite (S0-12)."""

WARNING: Final = (
    "not monotone in success: consistency falls towards one half, so rare fast success can stand above "
    "frequent success"
)

EMPTY_COHORT: Final = Reading(
    "empty-cohort",
    "S0-14",
    "Without a completed run there is no composite; it is not 0.",
)
NO_RENORMALISATION: Final = Reading(
    "no-renormalisation",
    "S0-14",
    "One completed run without latency or cost is enough for no composite: means over the others could be "
    "chosen by leaving figures out.",
)
FLOOR_FIRST: Final = Reading(
    "zero-success-floor-first",
    "S0-11",
    "Completed runs without a success give 0, also when a latency or cost is missing: it needs neither.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "S0-12, G-2",
    "The composite is exact; it is shown with two decimals, rounded once, half away from zero.",
)
READINGS: Final[tuple[Reading, ...]] = (
    EMPTY_COHORT,
    NO_RENORMALISATION,
    FLOOR_FIRST,
    ROUNDING,
    *RUN_READINGS,
)


class NoComposite(StrEnum):
    """Why there is no composite (G-5)."""

    NO_COMPLETED_RUNS = "no_completed_runs"
    MISSING_LATENCY_OR_COST = "missing_latency_or_cost"


REASON_TEXT: Final = {
    NoComposite.NO_COMPLETED_RUNS: "no run completed",
    NoComposite.MISSING_LATENCY_OR_COST: "a completed run has no latency or no cost",
}


@dataclass(frozen=True)
class Composite(MethodologyResult):
    """`raw` is the unrounded composite, 0..100; shares and scores are 0..1; averages are over the completed
    runs and None when one of them lacks the figure. `runs_outside` are recorded runs that never completed."""

    methodology: ClassVar[str] = METHODOLOGY
    policy: ClassVar[str] = POLICY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    agent_id: str | None
    completed: int
    successes: int
    runs_outside: int
    without_latency: int
    without_cost: int
    success_rate: Fraction | None
    avg_latency_ms: Fraction | None
    avg_cost_usd: Fraction | None
    consistency: Fraction | None
    latency_score: Fraction | None
    cost_score: Fraction | None
    raw: Fraction | None
    reason: NoComposite | None
    zero_success_floor: bool
    inputs_digest: str

    @property
    def shown(self) -> str | None:
        """The published text with two decimals (S0-12)."""
        return None if self.raw is None else fixed(self.raw, DECIMALS)

    @property
    def execution(self) -> Fraction | None:
        """Consistency x latency score, 0..1 (S0-7)."""
        if self.consistency is None or self.latency_score is None:
            return None
        return self.consistency * self.latency_score

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum, to be redone by hand."""
        out = [f"completed runs: {self.completed}; recorded, never completed, outside: {self.runs_outside}"]
        if not self.completed:
            return (*out, self._total())
        gate = f"1 - 4p(1 - p), p = {self.success_rate}"
        neutral = f"neutral below {CONSISTENCY_GATE} completed runs"
        return (
            *out,
            f"success p = {self.successes} / {self.completed} = {_exact(self.success_rate)}",
            f"consistency = {gate if self.completed >= CONSISTENCY_GATE else neutral} "
            f"= {_exact(self.consistency)}",
            self._curve("latency", self.avg_latency_ms, self.without_latency),
            self._curve("cost", self.avg_cost_usd, self.without_cost),
            self._total(),
            f"warning: {WARNING}",
        )

    def _curve(self, name: str, average: Fraction | None, lacking: int) -> str:
        if average is None:
            return f"{name} score: {DASH} ({lacking} completed runs without a {name})"
        curve = LATENCY_CURVE if name == "latency" else COST_CURVE
        return (
            f"{name} score: average over {self.completed} runs = {_exact(average)} {curve.unit}; "
            f"{curve.arithmetic(average)} of {POINTS}"
        )

    def _total(self) -> str:
        if self.reason is not None:
            return f"composite: {DASH} ({self.reason}: {REASON_TEXT[self.reason]})"
        if self.zero_success_floor:
            return f"composite = 0 by policy {self.policy}: no success in {self.completed} completed runs"
        return (
            f"composite = {POINTS} x ({SUCCESS_WEIGHT} x {self.success_rate} + {EXECUTION_WEIGHT} x "
            f"{self.consistency} x {self.latency_score} + {COST_WEIGHT} x {self.cost_score}) "
            f"= {_exact(self.raw)}, shown {self.shown}"
        )

    def as_data(self) -> dict[str, Any]:
        """Plain data: exact figures as `n/d` beside the display; missing is null with its reason."""
        return {
            "methodology": self.methodology,
            "policy": self.policy,
            "agent": self.agent_id,
            "composite": {
                "exact": plain(self.raw),
                "display": DASH if self.shown is None else self.shown,
                "unit": "points",
                "reason": plain(self.reason),
            },
            "zero_success_floor": self.zero_success_floor,
            "completed": self.completed,
            "successes": self.successes,
            "runs_outside": self.runs_outside,
            "without_latency": self.without_latency,
            "without_cost": self.without_cost,
            "success_rate": plain(self.success_rate),
            "consistency": plain(self.consistency),
            "average_latency_ms": plain(self.avg_latency_ms),
            "latency_score": plain(self.latency_score),
            "average_cost_usd": plain(self.avg_cost_usd),
            "cost_score": plain(self.cost_score),
            "execution": plain(self.execution),
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


def _exact(value: Fraction | None) -> str:
    return DASH if value is None else ratio(value)


def outcome_consistency(successes: int, completed: int) -> Fraction:
    """1 - 4p(1 - p) from five completed runs on, exactly 1 below; 0..1 (S0-5, S0-6).

    Raises `MalformedInputError("pass-count")` unless 0 <= successes <= completed and completed >= 1.
    """
    if completed < 1 or not 0 <= successes <= completed:
        raise MalformedInputError("pass-count", f"{successes} successes of {completed} completed runs")
    if completed < CONSISTENCY_GATE:
        return Fraction(1)
    return 1 - Fraction(4 * successes * (completed - successes), completed * completed)


def score_composite(runs: Sequence[Run]) -> Composite:
    """The composite of one agent's recorded runs, in any order and without a time window (S0-2 .. S0-14).

    Raises as `scoring.runs.cohort` does.
    """
    ordered = cohort(runs)
    done = [run for run in ordered if run.status is RunStatus.COMPLETED]
    successes = sum(run.success is True for run in done)
    latencies = [run.latency_ms for run in done if run.latency_ms is not None]
    costs = [run.cost_usd for run in done if run.cost_usd is not None]
    rate = Fraction(successes, len(done)) if done else None
    consistency = outcome_consistency(successes, len(done)) if done else None
    latency = mean_of(latencies) if done and len(latencies) == len(done) else None
    cost = mean_of(costs) if done and len(costs) == len(done) else None
    latency_score = None if latency is None else LATENCY_CURVE.points(latency) / POINTS
    cost_score = None if cost is None else COST_CURVE.points(cost) / POINTS
    raw, reason = _weigh(rate, consistency, latency_score, cost_score)
    return Composite(
        agent_id=ordered[0].agent_id if ordered else None,
        completed=len(done),
        successes=successes,
        runs_outside=len(ordered) - len(done),
        without_latency=len(done) - len(latencies),
        without_cost=len(done) - len(costs),
        success_rate=rate,
        avg_latency_ms=latency,
        avg_cost_usd=cost,
        consistency=consistency,
        latency_score=latency_score,
        cost_score=cost_score,
        raw=raw,
        reason=reason,
        zero_success_floor=rate == 0,
        inputs_digest=digest([METHODOLOGY, ordered]),
    )


def _weigh(
    rate: Fraction | None,
    consistency: Fraction | None,
    latency_score: Fraction | None,
    cost_score: Fraction | None,
) -> tuple[Fraction | None, NoComposite | None]:
    """S0-3 with the floor of S0-11; the reasons of S0-14."""
    if rate is None or consistency is None:
        return None, NoComposite.NO_COMPLETED_RUNS
    if rate == 0:
        return Fraction(0), None
    if latency_score is None or cost_score is None:
        return None, NoComposite.MISSING_LATENCY_OR_COST
    execution = consistency * latency_score
    return POINTS * (SUCCESS_WEIGHT * rate + EXECUTION_WEIGHT * execution + COST_WEIGHT * cost_score), None
