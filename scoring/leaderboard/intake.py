"""From verified tries to the runs of a board: which are valid, their score and cost (S1-4, S1-26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from scoring.classify import PASSES, TryClass, View, classify
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.leaderboard.entrants import entrant_of
from scoring.leaderboard.entries import BoardRun, Place
from scoring.leaderboard.list_price import ListPrice, TokenUse, list_price_usd
from scoring.numbers import usd
from scoring.pack_tally import tally
from scoring.tries import Plan, VerifiedTry
from scoring.vocabulary import Reason

Prices = Mapping[str, ListPrice]
"""The one official price table, by model id."""

WITH_VALID_SCORE: Final = frozenset({Reason.WRONG_OUTPUT, Reason.TAMPERING})
"""Failures that have a valid score (`VALID_RESULT`, `TAMPERING_IS_ZERO`)."""
VERDICT: Final = {True: Fraction(1), False: Fraction(0)}
"""The score of a run on a task that is passed or failed (`SCORE_SCALE`)."""


@dataclass(frozen=True)
class Seen:
    """One screening as a view sees it: its tries in the order given, and the finished ones with a valid
    score."""

    plan: Plan
    tries: tuple[VerifiedTry, ...]
    valid: tuple[VerifiedTry, ...]


def look(plan: Plan, tries: Sequence[VerifiedTry], view: View) -> Seen:
    """The visible tries, checked to belong to their plan (the codes of `scoring.pack_tally`)."""
    visible = tally(plan, tries, view).visible
    return Seen(plan, visible, tuple(try_ for try_ in visible if _is_valid(try_, view)))


def _is_valid(try_: VerifiedTry, view: View) -> bool:
    """Whether the try is a finished run with a valid score (S1-4)."""
    class_ = classify(try_, view)
    return class_ in PASSES or (class_ is TryClass.FINISHED_FAILURE and try_.reason in WITH_VALID_SCORE)


def board_runs(seen: Sequence[Seen], prices: Prices | None) -> list[BoardRun]:
    """One run per planned slot of every screening."""
    graded = _tasks_with_rewards(seen)
    return [run for one in seen for run in _runs(one, graded, prices)]


def _tasks_with_rewards(seen: Sequence[Seen]) -> frozenset[str]:
    """Tasks whose every valid run has a reward, tampering aside (`SCORE_SCALE`)."""
    graded: set[str] = set()
    plain: set[str] = set()
    for one in seen:
        for try_ in one.valid:
            if try_.reason is not Reason.TAMPERING:
                (plain if try_.reward is None else graded).add(task_key(one.plan.pack_id, try_.task_id))
    return frozenset(graded - plain)


def _runs(one: Seen, graded: frozenset[str], prices: Prices | None) -> list[BoardRun]:
    name, plan = entrant_of(one.plan).name, one.plan
    keys = {task: task_key(plan.pack_id, task) for task in plan.planned}
    missing = dict(plan.planned)
    valid = set(map(id, one.valid))
    runs = []
    for try_ in one.tries:
        key = keys[try_.task_id]
        missing[try_.task_id] -= 1
        if id(try_) in valid:
            score = _score(try_, by_reward=key in graded)
            runs.append(BoardRun(name, key, score, try_.wall_ms, _cost(plan, try_, prices)))
        else:
            runs.append(BoardRun(name, key, None, started=try_.reason is not Reason.NEVER_RECORDED))
    for task, count in missing.items():
        runs += [BoardRun(name, keys[task], None, started=False)] * count
    return runs


def _score(try_: VerifiedTry, *, by_reward: bool) -> Fraction:
    if by_reward and try_.reward is not None and try_.reason is not Reason.TAMPERING:
        return try_.reward
    return VERDICT[try_.reason is Reason.ALL_CHECKS_PASSED]


def _cost(plan: Plan, try_: VerifiedTry, prices: Prices | None) -> Fraction | None:
    """Exact USD of the entrant's own model calls, the grader's never among them (S1-26); None if unknown."""
    if prices is None:
        return None if try_.list_cost_nusd is None else usd(try_.list_cost_nusd)
    models = {model.id for model in (plan.models if try_.models is None else try_.models) or ()}
    tokens, cached, output = try_.input_tokens, try_.cached_input_tokens, try_.output_tokens
    if len(models) != 1 or tokens is None or cached is None or output is None:
        return None  # tokens are not known by model, so two models have no price either
    price = prices.get(models.pop())
    return None if price is None else list_price_usd(TokenUse(tokens, cached, output), price)


def require_one_price_sheet(seen: Sequence[Seen]) -> None:
    """S1-28: one price table for all whose cost is shown; raises `MethodologyMixError("price-mix")`."""
    sheets = {try_.price_sheet for one in seen for try_ in one.valid if try_.list_cost_nusd is not None}
    if len(sheets) > 1:
        raise MethodologyMixError("price-mix", "the runs were priced by different price sheets")


def require_new_certificates(seen: Sequence[Seen]) -> None:
    """No certificate in two screenings; raises `MalformedInputError("duplicate-certificate")`."""
    digests: set[str] = set()
    for one in seen:
        mine = {try_.certificate_digest for try_ in one.tries if try_.certificate_digest is not None}
        if mine & digests:
            raise MalformedInputError(
                "duplicate-certificate", f"screening {one.plan.screening_id} repeats a certificate"
            )
        digests |= mine


def default_places(seen: Sequence[Seen]) -> dict[str, Place]:
    """`DEFAULT_PLACES`: the pack is the sub-board, its use cases are the sub-categories."""
    made: dict[str, Place] = {}
    for plan in (one.plan for one in seen):
        tags = plan.tags or {}
        for task in plan.planned:
            key = task_key(plan.pack_id, task)
            subs = frozenset(tags[task].use_cases) if task in tags else frozenset[str]()
            made[key] = Place(plan.pack_id, subs | made[key].subs if key in made else subs)
    return made


def task_key(pack_id: str, task_id: str) -> str:
    """The same question: the same task of the same pack (one version of it is on a board)."""
    return f"{pack_id}/{task_id}"
