"""What the runs of a page say besides their scores: coverage, time and cost of each entrant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scoring.leaderboard.columns import Column, cost_column, time_column
from scoring.leaderboard.entries import BoardRun


@dataclass(frozen=True)
class Coverage:
    """How much of what was promised became a valid result: tasks and runs, planned, started and valid.

    Failed executions and invalid scores are absent from every figure of the board (S1-4); this is where an
    entrant that crashes on every hard task shows.
    """

    tasks_planned: int
    tasks_started: int
    tasks_valid: int
    runs_planned: int
    runs_started: int
    runs_valid: int


@dataclass(frozen=True)
class Facts:
    """Coverage, time (seconds) and cost (USD) of one entrant on one page."""

    coverage: Coverage
    time: Column
    cost: Column


def facts_of(runs: Iterable[BoardRun]) -> dict[str, Facts]:
    """The facts of every entrant that planned a run on the page, sorted by entrant."""
    mine: dict[str, list[BoardRun]] = {}
    for run in runs:
        mine.setdefault(run.entrant, []).append(run)
    return {name: _facts(mine[name]) for name in sorted(mine)}


def _facts(runs: Sequence[BoardRun]) -> Facts:
    valid = [run for run in runs if run.score is not None]
    started = [run for run in runs if run.started]
    costs: dict[str, list[Fraction | None]] = {}
    for run in valid:
        costs.setdefault(run.task, []).append(run.cost_usd)
    coverage = Coverage(
        tasks_planned=len({run.task for run in runs}),
        tasks_started=len({run.task for run in started}),
        tasks_valid=len(costs),
        runs_planned=len(runs),
        runs_started=len(started),
        runs_valid=len(valid),
    )
    return Facts(coverage, time_column(run.wall_ms for run in valid), cost_column(costs.values()))
