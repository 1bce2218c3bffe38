"""Adapters of the golden groups of `same-question-bt/1` (s1-*)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scoring.leaderboard.board import Level, Page
from scoring.leaderboard.columns import (
    TaskCosts,
    TaskTimes,
    cost_column,
    show_cost,
    show_time,
    time_column,
)
from scoring.leaderboard.elo import held_fixed
from scoring.leaderboard.entries import BoardRun, Place, TaskScores, sheet_of
from scoring.leaderboard.list_price import ListPrice, TokenUse, list_price_usd
from scoring.leaderboard.pages import leaderboard_of, page_of
from scoring.leaderboard.pairs import PairWeights
from scoring.leaderboard.ranking import score_ranks
from scoring.numbers import exact, fixed


def _runs(scores: dict[str, dict[str, str]]) -> list[BoardRun]:
    return [
        BoardRun(name, task, exact(text)) for task, table in scores.items() for name, text in table.items()
    ]


def weights(given: dict[str, Any]) -> dict[str, Any]:
    """S1-5 .. S1-10: the exact weight of every pair, and of every entrant."""
    players = sorted({name for table in given["scores"].values() for name in table})
    kept = PairWeights(players)
    for task, table in given["scores"].items():
        kept.add(TaskScores.of(task, {name: exact(text) for name, text in table.items()}))
    return {
        "players": players,
        "win_weight": [[kept.win_weight(a, b) for b in players] for a in players],
        "total_weight": {name: games for name, (_, games) in zip(players, kept.records(), strict=True)},
    }


def prior_closed_form(given: dict[str, Any]) -> dict[str, Any]:
    """S1-14 .. S1-17: one entrant against opponents held at its reference."""
    assert given["reference"] == given["opponents_fixed_at"]
    wins, games = exact(given["wins"]), exact(given["games"])
    score = held_fixed(exact(given["reference"]), wins, games, with_reference=given["prior"])
    return {"score": score, "display": fixed(Fraction(score), 0)}


def joint(given: dict[str, Any]) -> dict[str, Any]:
    """S1-11 .. S1-19: one page, with a common reference or with own ones."""
    runs, reference = _runs(given["scores"]), given["reference"]
    names = {run.entrant for run in runs}
    own = reference if isinstance(reference, dict) else dict.fromkeys(names, str(reference))
    references = {name: float(exact(own[name])) for name in names}
    sheet = sheet_of(runs)
    rows = page_of(Page(Level.BOARD, "b"), sheet, list(sheet.cells), references, "").rows
    return {
        "score": {row.entrant: row.score for row in rows},
        "display": {row.entrant: fixed(Fraction(row.score), 0) for row in rows},
    }


def cascade(given: dict[str, Any]) -> dict[str, Any]:
    """S1-2, S1-3, S1-19, S1-20: all pages."""
    tasks = given["tasks"]
    runs = _runs({task: entry["scores"] for task, entry in tasks.items()})
    places = {task: Place(entry["board"], frozenset(entry["subs"])) for task, entry in tasks.items()}
    made = leaderboard_of(runs, places)

    def scores(board: Any) -> dict[str, float]:
        return {row.entrant: row.score for row in board.rows}

    return {
        "overall": scores(made.overall),
        "boards": {board.page.name: scores(board) for board in made.boards},
        "subcategories": {board.page.name: scores(board) for board in made.subs},
    }


def ranking(given: dict[str, Any]) -> dict[str, Any]:
    """S1-21, S1-22: ranks and displayed integers."""
    scores = {name: exact(text) for name, text in given["scores"].items()}
    return {"rank": score_ranks(scores), "display": {name: fixed(score, 0) for name, score in scores.items()}}


def time(given: dict[str, Any]) -> dict[str, Any]:
    """S1-23 .. S1-25: the mean over every run."""
    tasks = [[1000 * exact(text) for text in task] for task in given["seconds_by_task"].values()]
    column = time_column(TaskTimes.of(task) for task in tasks)
    return {"mean": column.mean, "display": show_time(column.mean)}


def cost(given: dict[str, Any]) -> dict[str, Any]:
    """S1-26 .. S1-31: repeats first, then tasks."""
    tasks = [[exact(text) for text in task] for task in given["usd_by_task"].values()]
    column = cost_column(TaskCosts.of(task) for task in tasks)
    return {"mean": column.mean, "display": show_cost(column.mean)}


def list_price(given: dict[str, Any]) -> dict[str, Any]:
    """S1-26, S1-27: tokens at the official price."""
    price = ListPrice(**{f"{name}_usd": exact(text) for name, text in given["usd_per_million"].items()})
    use = TokenUse(**{f"{name}_tokens": number for name, number in given["tokens"].items()})
    return {"usd": list_price_usd(use, price)}


ADAPTERS = {
    "s1-weights": weights,
    "s1-prior-closed-form": prior_closed_form,
    "s1-bt-joint": joint,
    "s1-bt-own-reference": joint,
    "s1-cascade": cascade,
    "s1-ranking": ranking,
    "s1-time": time,
    "s1-cost": cost,
    "s1-list-price": list_price,
}
