"""`badgeia-repeatability/1`: how often repeated attempts at a task all succeed (seed 000).

Per task pass^k = C(c,k)/C(n,k) of c successes in n recorded outcomes, for k = 1, 3, 5, averaged without
weights over the tasks with at least three outcomes (S0-27 .. S0-30). It reads stored outcomes, without a
time window, and never starts a run (S0-26).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.digests import digest, plain
from scoring.errors import MalformedInputError
from scoring.numbers import DASH, fixed, ratio
from scoring.passk import mean, pass_hat_k
from scoring.results import MethodologyResult, Reading
from scoring.runs import RUN_READINGS, Run, cohort

METHODOLOGY: Final = "badgeia-repeatability/1"
LEVELS: Final = (1, 3, 5)
"""The public k (S0-28)."""
TASK_GATE: Final = 3
"""Recorded outcomes from which on a task enters (S0-29)."""

LITERAL_ZERO: Final = Reading(
    "n-below-k",
    "S0-31",
    "A task with fewer outcomes than k contributes the literal 0 (fewer than k successes observed), although "
    "C(n,k) = 0 leaves the fraction undefined; how many such tasks there are is printed beside the figure.",
)
KNOWN_OUTCOMES: Final = Reading(
    "known-outcomes",
    "S0-26",
    "Every terminal run with a known outcome counts, also a timeout; runs with an unknown outcome do not.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "G-2",
    "Figures are exact shares; they are shown in percent with one decimal, rounded once, half away from 0.",
)
READINGS: Final[tuple[Reading, ...]] = (LITERAL_ZERO, KNOWN_OUTCOMES, ROUNDING, *RUN_READINGS)


class NoRepeatability(StrEnum):
    """Why a level is missing (G-5)."""

    NO_QUALIFYING_TASK = "no_qualifying_task"


@dataclass(frozen=True)
class TaskOutcomes:
    """`successes` c of `outcomes` n recorded for one task; else `MalformedInputError("pass-count")`."""

    task_id: str
    successes: int
    outcomes: int

    def __post_init__(self) -> None:
        whole = all(type(value) is int for value in (self.successes, self.outcomes))
        if not whole or not 0 <= self.successes <= self.outcomes:
            raise MalformedInputError("pass-count", f"{self.successes!r} successes of {self.outcomes!r}")

    @property
    def qualifies(self) -> bool:
        """Whether there are at least three outcomes (S0-29)."""
        return self.outcomes >= TASK_GATE


@dataclass(frozen=True)
class Level:
    """pass^`k` as a share 0..1, or None with its reason; `tasks_with_n_below_k` contributed 0 (S0-31)."""

    k: int
    value: Fraction | None
    reason: NoRepeatability | None
    tasks_with_n_below_k: int


@dataclass(frozen=True)
class Repeatability(MethodologyResult):
    """The levels for k = 1, 3, 5; `tasks` are the qualifying ones, `tasks_left_out` had too few outcomes."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    levels: tuple[Level, ...]
    tasks: tuple[TaskOutcomes, ...]
    tasks_left_out: int
    inputs_digest: str

    @property
    def qualifying_tasks(self) -> int:
        """How many tasks entered."""
        return len(self.tasks)

    def level(self, k: int) -> Level:
        """The level of one public k; another k raises `MalformedInputError("level")`."""
        for one in self.levels:
            if one.k == k:
                return one
        raise MalformedInputError("level", f"pass^{k} is not published; k is one of {LEVELS}")

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum, to be redone by hand."""
        tasks = (f"task {one.task_id}: {one.successes} of {one.outcomes} succeeded" for one in self.tasks)
        return (
            f"{len(self.tasks)} tasks with at least {TASK_GATE} outcomes; {self.tasks_left_out} left out",
            *tasks,
            *(self._line(level) for level in self.levels),
        )

    def _line(self, level: Level) -> str:
        if level.value is None:
            return f"pass^{level.k}: {DASH} ({level.reason})"
        terms = [str(pass_hat_k(one.successes, one.outcomes, level.k)) for one in self.tasks]
        total = f"({' + '.join(terms)}) / {len(terms)} = {ratio(level.value)}"
        below = f"{level.tasks_with_n_below_k} tasks with fewer than {level.k} outcomes give 0"
        return f"pass^{level.k} = mean of C(c,{level.k})/C(n,{level.k}) = {total}; {below}"

    def as_data(self) -> dict[str, Any]:
        """Plain data: exact figures as `n/d` beside the display; missing is null with its reason."""
        return {
            "methodology": self.methodology,
            "levels": [
                {
                    "k": one.k,
                    "exact": plain(one.value),
                    "display": DASH if one.value is None else fixed(one.value * 100, 1),
                    "unit": "percent",
                    "reason": plain(one.reason),
                    "tasks_with_n_below_k": one.tasks_with_n_below_k,
                }
                for one in self.levels
            ],
            "qualifying_tasks": self.qualifying_tasks,
            "tasks_left_out": self.tasks_left_out,
            "tasks": [plain(one) for one in self.tasks],
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


def outcomes_of(runs: Sequence[Run]) -> tuple[TaskOutcomes, ...]:
    """The recorded known outcomes of one agent's runs by task; raises as `scoring.runs.cohort` does."""
    known: dict[str, list[bool]] = {}
    for run in cohort(runs):
        if run.terminal and run.success is not None:
            known.setdefault(run.task_id, []).append(run.success)
    return tuple(TaskOutcomes(task, sum(made), len(made)) for task, made in sorted(known.items()))


def score_repeatability(tasks: Iterable[TaskOutcomes]) -> Repeatability:
    """pass^1, pass^3 and pass^5 over the qualifying tasks, in any order (S0-27 .. S0-31).

    Raises `MalformedInputError`: `not-task-outcomes`, `duplicate-task`.
    """
    given = list(tasks)
    for one in given:
        if not isinstance(one, TaskOutcomes):
            raise MalformedInputError("not-task-outcomes", f"a {type(one).__name__} is not a task's outcomes")
    given.sort(key=lambda one: one.task_id)
    if len({one.task_id for one in given}) < len(given):
        raise MalformedInputError("duplicate-task", "a task appears twice")
    entering = tuple(one for one in given if one.qualifies)
    return Repeatability(
        levels=tuple(_level(entering, k) for k in LEVELS),
        tasks=entering,
        tasks_left_out=len(given) - len(entering),
        inputs_digest=digest([METHODOLOGY, given]),
    )


def _level(tasks: Sequence[TaskOutcomes], k: int) -> Level:
    below = sum(one.outcomes < k for one in tasks)
    if not tasks:
        return Level(k, None, NoRepeatability.NO_QUALIFYING_TASK, below)
    pairs: Mapping[tuple[int, int], int] = Counter((one.successes, one.outcomes) for one in tasks)
    return Level(k, mean((pass_hat_k(c, n, k), times) for (c, n), times in pairs.items()), None, below)
