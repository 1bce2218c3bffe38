"""A board as plain data for `--json`, pages and digests: strings, integers and null, no binary float.

Scores, references and gaps are decimal strings of three places, the resolution that ranks use and well above
the error of the fit (below 0.0001); exact figures are `n/d` beside their rounded display.
"""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final

from scoring.leaderboard.board import Board, Leaderboard, Row
from scoring.leaderboard.columns import COST_DECIMALS, TIME_DECIMALS, Column
from scoring.leaderboard.ranking import RANK_DECIMALS
from scoring.numbers import DASH, fixed, ratio

ROUNDING: Final = {
    "score": "three decimals, half away from zero",
    "shown": "score as an integer, seconds one decimal, USD four decimals, each rounded once",
    "p": "six decimals",
}
P_DECIMALS: Final = 6


def as_data(result: Leaderboard) -> dict[str, Any]:
    """All pages; equal inputs in any order give equal data."""
    return {
        "methodology": result.methodology,
        "inputs_digest": result.inputs_digest,
        "non_public_runs": result.non_public_runs,
        "rounding": ROUNDING,
        "readings": [reading.as_data() for reading in result.readings],
        "pages": [board_data(board) for board in result.pages],
    }


def board_data(board: Board) -> dict[str, Any]:
    """One page; it carries its methodology and input digest itself."""
    return {
        "methodology": board.methodology,
        "inputs_digest": board.inputs_digest,
        "page": {
            "name": board.page.name,
            "level": board.page.level.value,
            "board": board.page.board,
            "sub": board.page.sub,
        },
        "rows": [_row(board, row) for row in board.rows],
        "without_result": [
            {"entrant": name, "coverage": asdict(coverage)} for name, coverage in board.without_result
        ],
        "tasks_with_result": len(board.tasks),
        "tasks_compared": board.tasks_compared,
        "gaps_reason": None if board.gaps_reason is None else board.gaps_reason.value,
    }


def _row(board: Board, row: Row) -> dict[str, Any]:
    return {
        "entrant": row.entrant,
        "score": _elo(row.score),
        "shown": fixed(Fraction(row.score), 0),
        "reference": _elo(row.reference),
        "rank": row.rank,
        "rank_range": [row.best, row.worst],
        "wins": ratio(row.wins),
        "compared": ratio(row.compared),
        "to_first": _to_first(board, row),
        "time_s": _column(row.time, TIME_DECIMALS, row.time_rank),
        "cost_usd": _column(row.cost, COST_DECIMALS, row.cost_rank),
        "coverage": asdict(row.coverage),
    }


def _to_first(board: Board, row: Row) -> dict[str, str] | None:
    """The gap to the first row with its 95% interval; None for that row itself, or without intervals."""
    if board.gaps is None or row is board.rows[0]:
        return None
    gap = board.gaps.gap(row.entrant, board.rows[0].entrant)
    figures = {"difference": _elo(gap.difference), "low": _elo(gap.low), "high": _elo(gap.high)}
    return {**figures, "p_holm": fixed(Fraction(gap.p_holm), P_DECIMALS)}


def _column(column: Column, decimals: int, rank: int | None) -> dict[str, Any]:
    return {
        "exact": None if column.mean is None else ratio(column.mean),
        "shown": DASH if column.mean is None else fixed(column.mean, decimals),
        "rank": rank,
        "known": column.known,
        "runs": column.runs,
    }


def _elo(value: float) -> str:
    return fixed(Fraction(value), RANK_DECIMALS)
