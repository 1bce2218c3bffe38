"""What a page is computed from: runs and where their tasks belong (S1-1, S1-2, S1-4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from scoring.domain import count, not_negative
from scoring.errors import MalformedInputError
from scoring.leaderboard.columns import exact_sum


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
    """The exact mean score of each entrant with a valid result on one task, sorted by entrant (S1-5)."""

    task: str
    entrants: tuple[str, ...]
    scores: tuple[Fraction, ...]

    def levels(self) -> list[int]:
        """Order-preserving whole numbers: equal scores equal, higher scores higher."""
        bottom = lcm(*(score.denominator for score in self.scores))
        tops = [score.numerator * (bottom // score.denominator) for score in self.scores]
        level = {top: place for place, top in enumerate(sorted(set(tops)))}
        return [level[top] for top in tops]


def task_scores(runs: Iterable[BoardRun]) -> tuple[TaskScores, ...]:
    """Valid results by task, repeats averaged exactly, sorted by task and entrant: any order of runs is
    one."""
    valid: dict[str, dict[str, list[Fraction]]] = {}
    for run in runs:
        if run.score is not None:
            valid.setdefault(run.task, {}).setdefault(run.entrant, []).append(run.score)
    tables = []
    for task in sorted(valid):
        entrants = tuple(sorted(valid[task]))
        scores = tuple(_mean(valid[task][entrant]) for entrant in entrants)
        tables.append(TaskScores(task, entrants, scores))
    return tuple(tables)


def from_means(task: str, means: Mapping[str, Fraction]) -> TaskScores:
    """One task's table from mean scores by entrant."""
    entrants = tuple(sorted(means))
    return TaskScores(task, entrants, tuple(means[entrant] for entrant in entrants))


def _mean(scores: list[Fraction]) -> Fraction:
    return scores[0] if len(scores) == 1 else exact_sum(scores) / len(scores)
