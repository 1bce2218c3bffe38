"""`same-question-bt/1`: the scorer, from opening statements and verified tries to every page of the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scoring.classify import View
from scoring.digests import digest, plain
from scoring.errors import MalformedInputError
from scoring.inputs import inputs_digest
from scoring.leaderboard.board import METHODOLOGY, Leaderboard
from scoring.leaderboard.entrants import require_one_board
from scoring.leaderboard.entries import Place
from scoring.leaderboard.intake import (
    Prices,
    Seen,
    board_runs,
    default_places,
    look,
    require_new_certificates,
    require_one_price_sheet,
    task_key,
)
from scoring.tries import Plan, VerifiedTry

__all__ = ["METHODOLOGY", "Leaderboard", "score_board"]

Screening = tuple[Plan, Sequence[VerifiedTry]]
"""One screening: what was promised, and its verified tries."""


def score_board(
    screenings: Sequence[Screening],
    *,
    view: View,
    places: Mapping[tuple[str, str], Place] | None = None,
    prices: Prices | None = None,
) -> Leaderboard:
    """Every page of one board (S1-1 .. S1-32). The order of screenings and tries has no effect.

    `places` gives each (pack id, task id) its sub-board and sub-categories; without it, see `DEFAULT_PLACES`.
    With `prices` the cost of a run is its tokens at that table, if its one model is in it; without, the model
    calls at the list prices that the relay used, which must be one price sheet (S1-28).

    Raises `MethodologyMixError` for two versions of a pack, judges of a pack, provenance labels or price
    sheets on one board; `NotConvergedError`; and `MalformedInputError`: `no-screening`,
    `duplicate-screening`, `duplicate-certificate`, `entrant-mix`, `unplaced-task`, `view`, and the codes of
    `scoring.pack_tally` for tries that do not belong to their plan.
    """
    from scoring.leaderboard.pages import leaderboard_of  # numpy, only when a board is computed

    if not isinstance(view, View):
        raise MalformedInputError("view", f"{view!r:.40} is not a view")
    seen = [look(plan, tries, view) for plan, tries in screenings]
    require_one_board([one.plan for one in seen])
    require_new_certificates(seen)
    if prices is None:
        require_one_price_sheet(seen)
    where = default_places(seen)
    if places is not None:
        where = {task_key(*task): place for task, place in places.items()}
    return leaderboard_of(
        board_runs(seen, prices),
        where,
        inputs_digest=_digest(seen, view, where, prices),
        non_public_runs=sum(not try_.public for one in seen for try_ in one.valid),
    )


def _digest(seen: Sequence[Seen], view: View, places: Mapping[str, Place], prices: Prices | None) -> str:
    """Over the view, the places, the prices and the digest of each screening; see `scoring.inputs`."""
    source = {
        "view": view,
        "screenings": sorted(inputs_digest(one.plan, one.tries) for one in seen),
        "places": {task: [place.board, plain(place.subs)] for task, place in places.items()},
        "prices": None if prices is None else {model: plain(price) for model, price in prices.items()},
    }
    return digest(source)
