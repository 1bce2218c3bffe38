"""The arithmetic of a page: each comparison of a task with its weight, and each figure of a row in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from scoring.errors import MalformedInputError
from scoring.leaderboard.board import Board, Row
from scoring.leaderboard.columns import show_cost, show_time
from scoring.leaderboard.elo import REFERENCE_DRAWS
from scoring.leaderboard.entries import TaskScores
from scoring.leaderboard.ranking import RANK_DECIMALS
from scoring.numbers import fixed

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Comparison:
    """One pair on one task: `share` is 1 if the first won, 1/2 for a draw, 0 if the second won (S1-6,
    S1-7)."""

    first: str
    second: str
    share: Fraction
    weight: Fraction


@dataclass(frozen=True)
class TaskArithmetic:
    """Every comparison of a task. `wins` are the win weights that it adds to each entrant; an entrant's
    weights add up to 1, or to 0 where it was alone (S1-8 .. S1-10)."""

    task: str
    scores: tuple[tuple[str, Fraction], ...]
    weight: Fraction
    comparisons: tuple[Comparison, ...]
    wins: tuple[tuple[str, Fraction], ...]


def explain_task(board: Board, task: str) -> TaskArithmetic:
    """The comparisons of one task of the page; raises `MalformedInputError("unknown-task")`."""
    for table in board.tasks:
        if table.task == task:
            return _explain(table)
    raise MalformedInputError("unknown-task", f"task {task!r:.60} has no valid result on {board.page.name}")


def _explain(table: TaskScores) -> TaskArithmetic:
    scores = tuple(zip(table.entrants, table.scores, strict=True))
    weight = Fraction(1, len(scores) - 1) if len(scores) > 1 else Fraction(0)
    comparisons = tuple(
        Comparison(first, second, _share(a, b), weight) for (first, a), (second, b) in combinations(scores, 2)
    )
    wins = dict.fromkeys(table.entrants, Fraction(0))
    for one in comparisons:
        wins[one.first] += one.share * weight
        wins[one.second] += (1 - one.share) * weight
    return TaskArithmetic(table.task, scores, weight, comparisons, tuple(wins.items()))


def _share(a: Fraction, b: Fraction) -> Fraction:
    return HALF if a == b else Fraction(a > b)


def task_lines(board: Board, task: str) -> list[str]:
    """The same as text, one line per comparison."""
    made = explain_task(board, task)
    scores = dict(made.scores)
    lines = [f"task {task}: {len(scores)} entrants, {len(made.comparisons)} comparisons of {made.weight}"]
    for one in made.comparisons:
        sign = "=" if one.share == HALF else ">" if one.share else "<"
        lines.append(
            f"  {one.first} {scores[one.first]} {sign} {scores[one.second]} {one.second}: "
            f"{one.share * one.weight} to {(1 - one.share) * one.weight}"
        )
    return [*lines, *(f"  {name}: wins {won}" for name, won in made.wins)]


def lines(board: Board) -> list[str]:
    """The page as text: how each row came about, and the readings."""
    out = [
        f"{board.methodology}, page {board.page.name}: {board.tasks_compared} compared tasks of "
        f"{len(board.tasks)} with a valid result; one joint fit, gradient {board.gradient_norm:.1e}, "
        f"{board.steps} steps"
    ]
    for row in board.rows:
        out += _row_lines(row, len(board.rows))
    for name, coverage in board.without_result:
        out.append(f"{name}: no score, 0 valid of {coverage.runs_started} started runs")
    if board.gaps_reason is not None:
        out.append(f"no intervals: {board.gaps_reason}")
    out += [f"reading {r.code} ({r.requirement}): {r.text}" for r in board.readings]
    return [*out, f"inputs {board.inputs_digest}"]


def _row_lines(row: Row, rows: int) -> list[str]:
    coverage = row.coverage
    return [
        f"{row.rank}. {row.entrant}: {fixed(Fraction(row.score), 0)} "
        f"({fixed(Fraction(row.score), RANK_DECIMALS)}), rank {row.best} to {row.worst} of {rows}",
        f"   {row.wins} wins of weight {row.compared}, and {REFERENCE_DRAWS} draws at its reference "
        f"{fixed(Fraction(row.reference), RANK_DECIMALS)}",
        f"   time {show_time(row.time.mean)} s over {row.time.known} of {row.time.runs} runs; cost "
        f"{show_cost(row.cost.mean)} USD over {row.cost.known} of {row.cost.runs} runs",
        f"   valid on {coverage.tasks_valid} of {coverage.tasks_started} tasks started, "
        f"{coverage.tasks_planned} planned",
    ]
