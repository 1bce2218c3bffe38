"""`same-question-bt/1`: the scorer, from opening statements and verified tries to every page of the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from scoring.classify import PASSES, TryClass, View, classify
from scoring.digests import digest, plain
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.inputs import inputs_digest
from scoring.leaderboard.board import METHODOLOGY, Leaderboard
from scoring.leaderboard.entrants import entrant_of, require_one_board
from scoring.leaderboard.entries import BoardRun, Place
from scoring.leaderboard.list_price import ListPrice, TokenUse, list_price_usd
from scoring.numbers import usd
from scoring.pack_tally import tally
from scoring.tries import Plan, VerifiedTry
from scoring.vocabulary import Reason

__all__ = ["METHODOLOGY", "Leaderboard", "score_board"]

Screening = tuple[Plan, Sequence[VerifiedTry]]
"""One screening: what was promised, and its verified tries."""
Prices = Mapping[str, ListPrice]
"""The one official price table, by model id."""

WITH_VALID_SCORE: Final = frozenset({Reason.WRONG_OUTPUT, Reason.TAMPERING})
"""Failures that have a valid score (`VALID_RESULT`, `TAMPERING_IS_ZERO`)."""


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
    seen = [(plan, _visible(plan, tries, view)) for plan, tries in screenings]
    require_one_board([plan for plan, _ in seen])
    _require_new_certificates(seen)
    graded = _tasks_with_rewards(seen, view)
    runs: list[BoardRun] = []
    for plan, tries in seen:
        runs += _runs(plan, tries, view, graded, prices)
    if prices is None:
        _require_one_sheet(seen, view)
    where = _places(seen) if places is None else {_key(*task): place for task, place in places.items()}
    source = {
        "screenings": sorted(inputs_digest(plan, tries, view=view) for plan, tries in seen),
        "places": {task: [place.board, plain(place.subs)] for task, place in where.items()},
        "prices": None if prices is None else {model: plain(price) for model, price in prices.items()},
    }
    non_public = sum(not try_.public and _is_valid(try_, view) for _, tries in seen for try_ in tries)
    return leaderboard_of(runs, where, inputs_digest=digest(source), non_public_runs=non_public)


def _visible(plan: Plan, tries: Sequence[VerifiedTry], view: View) -> tuple[VerifiedTry, ...]:
    """The tries that the view may see, checked to belong to their plan."""
    return tally(plan, tries, view).visible


def _is_valid(try_: VerifiedTry, view: View) -> bool:
    """Whether the try is a finished run with a valid score (S1-4)."""
    class_ = classify(try_, view)
    return class_ in PASSES or (class_ is TryClass.FINISHED_FAILURE and try_.reason in WITH_VALID_SCORE)


def _tasks_with_rewards(seen: Sequence[Screening], view: View) -> frozenset[str]:
    """Tasks whose every valid run has a reward, tampering aside (`SCORE_SCALE`)."""
    every: dict[str, bool] = {}
    for plan, tries in seen:
        for try_ in tries:
            if _is_valid(try_, view) and try_.reason is not Reason.TAMPERING:
                key = _key(plan.pack_id, try_.task_id)
                every[key] = every.get(key, True) and try_.reward is not None
    return frozenset(key for key, all_graded in every.items() if all_graded)


def _runs(
    plan: Plan, tries: Sequence[VerifiedTry], view: View, graded: frozenset[str], prices: Prices | None
) -> list[BoardRun]:
    """One run per planned slot of the screening."""
    name = entrant_of(plan).name
    runs, recorded = [], dict.fromkeys(plan.planned, 0)
    for try_ in tries:
        key = _key(plan.pack_id, try_.task_id)
        recorded[try_.task_id] += 1
        if _is_valid(try_, view):
            score = _score(try_, by_reward=key in graded)
            runs.append(BoardRun(name, key, score, try_.wall_ms, _cost(plan, try_, prices)))
        else:
            runs.append(BoardRun(name, key, None, started=try_.reason is not Reason.NEVER_RECORDED))
    for task, count in recorded.items():
        missing = plan.planned[task] - count
        runs += [BoardRun(name, _key(plan.pack_id, task), None, started=False)] * missing
    return runs


def _score(try_: VerifiedTry, *, by_reward: bool) -> Fraction:
    if try_.reason is Reason.TAMPERING:
        return Fraction(0)
    if by_reward and try_.reward is not None:
        return try_.reward
    return Fraction(try_.reason is Reason.ALL_CHECKS_PASSED)


def _cost(plan: Plan, try_: VerifiedTry, prices: Prices | None) -> Fraction | None:
    """Exact USD of the entrant's own model calls, the grader's never among them (S1-26); None if unknown."""
    if prices is None:
        return None if try_.list_cost_nusd is None else usd(try_.list_cost_nusd)
    models = plan.models if try_.models is None else try_.models
    tokens = (try_.input_tokens, try_.cached_input_tokens, try_.output_tokens)
    ids = {model.id for model in models or ()}
    if len(ids) != 1 or not ids <= set(prices) or any(count is None for count in tokens):
        return None
    input_, cached, output = (count or 0 for count in tokens)
    return list_price_usd(TokenUse(input_, cached, output), prices[ids.pop()])


def _require_one_sheet(seen: Sequence[Screening], view: View) -> None:
    """S1-28: one price table for all whose cost is shown."""
    priced = (t for _, tries in seen for t in tries if t.list_cost_nusd is not None and _is_valid(t, view))
    if len({try_.price_sheet for try_ in priced}) > 1:
        raise MethodologyMixError("price-mix", "the runs were priced by different price sheets")


def _require_new_certificates(seen: Sequence[Screening]) -> None:
    digests: set[str] = set()
    for plan, tries in seen:
        mine = {try_.certificate_digest for try_ in tries if try_.certificate_digest is not None}
        if mine & digests:
            raise MalformedInputError(
                "duplicate-certificate", f"screening {plan.screening_id} repeats a certificate"
            )
        digests |= mine


def _places(seen: Sequence[Screening]) -> dict[str, Place]:
    """`DEFAULT_PLACES`: the pack is the sub-board, its use cases are the sub-categories."""
    made: dict[str, Place] = {}
    for plan, _ in seen:
        tags = plan.tags or {}
        for task in plan.planned:
            subs = frozenset(tags[task].use_cases) if task in tags else frozenset[str]()
            key = _key(plan.pack_id, task)
            made[key] = Place(plan.pack_id, subs | (made[key].subs if key in made else frozenset()))
    return made


def _key(pack_id: str, task_id: str) -> str:
    """The same question: the same task of the same pack (one version of it is on a board)."""
    return f"{pack_id}/{task_id}"
