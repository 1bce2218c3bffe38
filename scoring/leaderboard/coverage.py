"""What the runs of a page say besides their scores: coverage, time and cost of each entrant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scoring.leaderboard.columns import Column, cost_column, time_column
from scoring.leaderboard.entries import Cell


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


def facts_of(tasks: Iterable[Mapping[str, Cell]]) -> dict[str, Facts]:
    """The facts of every entrant that planned a run on one of the tasks, sorted by entrant."""
    mine: dict[str, list[Cell]] = {}
    for row in tasks:
        for entrant, cell in row.items():
            mine.setdefault(entrant, []).append(cell)
    return {entrant: _facts(mine[entrant]) for entrant in sorted(mine)}


def _facts(cells: Sequence[Cell]) -> Facts:
    coverage = Coverage(
        tasks_planned=len(cells),
        tasks_started=sum(cell.started > 0 for cell in cells),
        tasks_valid=sum(cell.score is not None for cell in cells),
        runs_planned=sum(cell.planned for cell in cells),
        runs_started=sum(cell.started for cell in cells),
        runs_valid=sum(cell.times.runs for cell in cells),
    )
    times = time_column(cell.times for cell in cells)
    return Facts(coverage, times, cost_column(cell.costs for cell in cells))
