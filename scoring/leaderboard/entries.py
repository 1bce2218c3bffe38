"""What pages are computed from: runs, what they come to on a task, where tasks belong (S1-2, S1-5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from scoring.domain import count, not_negative
from scoring.errors import MalformedInputError
from scoring.leaderboard.columns import TaskCosts, TaskTimes, exact_mean


@dataclass(frozen=True, slots=True)
class BoardRun:
    """One planned run of an entrant (a pairing harness + model, S1-1) on a task.

    `score` is the exact score of a valid result and None for anything else, on any scale: only the order on
    one task counts. `wall_ms` and `cost_usd` are None where unknown. `started` is False for a planned run
    that left no record, which cannot have a score.
    """

    entrant: str
    task: str
    score: Fraction | None
    wall_ms: int | None = None
    cost_usd: Fraction | None = None
    started: bool = True

    def __post_init__(self) -> None:
        if self.score is not None and not isinstance(self.score, Fraction):
            raise MalformedInputError("number", f"score is {self.score!r:.60}, not an exact number")
        if self.wall_ms is not None:
            count("wall_ms", self.wall_ms)
        if self.cost_usd is not None:
            not_negative("cost_usd", self.cost_usd)
        if self.score is not None and not self.started:
            raise MalformedInputError("not-started", "a run that never started has no score")


@dataclass(frozen=True)
class Place:
    """Where a task belongs: exactly one sub-board, and any number of its sub-categories (S1-2)."""

    board: str
    subs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The exact mean score of each entrant with a valid result on one task, sorted by entrant (S1-5).

    `levels` are whole numbers in the same order: equal scores equal, higher scores higher.
    """

    task: str
    entrants: tuple[str, ...]
    scores: tuple[Fraction, ...]
    levels: tuple[int, ...]

    @classmethod
    def of(cls, task: str, means: Mapping[str, Fraction]) -> TaskScores:
        """One task's table from mean scores by entrant."""
        entrants = tuple(sorted(means))
        scores = tuple(means[entrant] for entrant in entrants)
        return cls(task, entrants, scores, _levels(scores))


@dataclass(frozen=True, slots=True)
class Cell:
    """What one entrant's runs on one task come to: counts, mean score (None: no valid one), time, cost."""

    planned: int
    started: int
    score: Fraction | None
    times: TaskTimes
    costs: TaskCosts


@dataclass(frozen=True)
class Sheet:
    """Every task's cells by entrant, and the score table of each task that has a valid result; both are the
    same on every page, so they are made once."""

    cells: dict[str, dict[str, Cell]]
    tables: dict[str, TaskScores]


def sheet_of(runs: Iterable[BoardRun]) -> Sheet:
    """The runs by task and entrant, both sorted, repeats averaged exactly: any order of runs is one."""
    grouped: dict[str, dict[str, list[BoardRun]]] = {}
    for run in runs:
        grouped.setdefault(run.task, {}).setdefault(run.entrant, []).append(run)
    cells = {
        task: {entrant: _cell(row[entrant]) for entrant in sorted(row)}
        for task, row in sorted(grouped.items())
    }
    tables = {}
    for task, row in cells.items():
        means = {entrant: cell.score for entrant, cell in row.items() if cell.score is not None}
        if means:
            tables[task] = TaskScores.of(task, means)
    return Sheet(cells, tables)


def _cell(runs: Sequence[BoardRun]) -> Cell:
    scores = [run.score for run in runs if run.score is not None]
    valid = runs if len(scores) == len(runs) else [run for run in runs if run.score is not None]
    return Cell(
        planned=len(runs),
        started=sum(run.started for run in runs),
        score=exact_mean(scores) if scores else None,
        times=TaskTimes.of([run.wall_ms for run in valid]),
        costs=TaskCosts.of([run.cost_usd for run in valid]),
    )


def _levels(scores: Sequence[Fraction]) -> tuple[int, ...]:
    ratios = [score.as_integer_ratio() for score in scores]
    common = lcm(*(bottom for _, bottom in ratios))
    tops = [top * (common // bottom) for top, bottom in ratios]
    level = {top: place for place, top in enumerate(sorted(set(tops)))}
    return tuple(level[top] for top in tops)
