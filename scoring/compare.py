"""Comparing two results, or many, of one methodology over the same tasks (`statistics/1`).

Comparable first (S4-33), with the reasons when not (S4-34); then paired by task: exact sign-flip test
(ST-4), the smallest difference that this pair can show (ST-5), Holm and rank ranges for many (ST-7). No
number of two methodologies is ever set against another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Final

from scoring.comparability import Condition, Difference, differences
from scoring.comparison import METHODOLOGY, Comparison, PairedTask, Side, TaskCounts
from scoring.detectable import detectable_from_pair
from scoring.digests import digest
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.facts import Conditions
from scoring.holm import RankRange, holm, rank_ranges
from scoring.noise import ALPHA
from scoring.pack_card import PackScoreCard
from scoring.rate_agent_result import AgentRating
from scoring.sign_flip import sign_flip_p

__all__ = ["METHODOLOGY", "ManyCompared", "compare", "compare_all", "side_of_card", "side_of_rating"]

_DIGEST_SHOWN: Final = 12


def side_of_card(card: PackScoreCard, conditions: Conditions | None, name: str | None = None) -> Side:
    """A Pack Score card as one side; tasks that the screening did not plan are left out."""
    return Side(
        name=name or card.key.agent_id,
        methodology=card.methodology,
        conditions=conditions,
        judge=card.key.judge,
        pack_digest=card.key.pack_digest,
        tasks=tuple(
            TaskCounts(one.task_id, one.passes, one.counted, one.planned) for one in card.tasks if one.planned
        ),
        inputs_digest=card.inputs_digest,
    )


def side_of_rating(rating: AgentRating, name: str | None = None) -> Side:
    """A rating as one side; without a subject its suite is known by name only."""
    subject = rating.subject
    return Side(
        name=name or rating.name,
        methodology=rating.methodology,
        conditions=rating.conditions,
        judge="programmatic" if subject is None else subject.judge,
        pack_digest=None if subject is None else subject.pack_digest,
        tasks=tuple(TaskCounts(one.task, one.passed, one.attempts, one.slots) for one in rating.tasks),
        inputs_digest=rating.inputs_digest,
    )


def why_not(a: Side, b: Side) -> tuple[Difference, ...]:
    """The reasons why two results are not comparable; unknown conditions are a reason of their own."""
    if a.conditions is None or b.conditions is None:
        known = ["known" if one.conditions is not None else "unknown" for one in (a, b)]
        return (Difference(Condition.UNKNOWN, *known),)
    found = list(differences(a.conditions, b.conditions))
    if a.pack_digest != b.pack_digest and not any(d.condition is Condition.SUITE_VERSION for d in found):
        texts = (f"{one.conditions.suite_version} {_short(one)}" for one in (a, b) if one.conditions)
        found.insert(0, Difference(Condition.SUITE_VERSION, *texts))
    if a.judge != b.judge:
        found.append(Difference(Condition.JUDGE, a.judge, b.judge))
    return tuple(found)


def _short(side: Side) -> str:
    return (
        "of an unknown digest" if side.pack_digest is None else f"digest {side.pack_digest[:_DIGEST_SHOWN]}"
    )


def compare(a: Side, b: Side) -> Comparison:
    """Compare A with B; swapping them mirrors the result.

    Raises `MethodologyMixError("methodology-mix")` for results of two methodologies.
    """
    if a.methodology != b.methodology:
        raise MethodologyMixError(
            "methodology-mix", f"a {a.methodology} result is never compared with a {b.methodology} result"
        )
    reasons, tasks = why_not(a, b), _pair(a, b)
    both = [(one.a, one.b) for one in tasks if one.difference is not None and one.a and one.b]
    if reasons or not both:
        return Comparison(a, b, reasons, tasks, None, None, None, None, None, _digest(a, b))
    shares = [one.difference for one in tasks if one.difference is not None]
    worst_case, p_worst_case = _worst_case(tasks)
    return Comparison(
        a=a,
        b=b,
        reasons=(),
        tasks=tasks,
        difference=sum(shares, Fraction(0)) / len(shares),
        p_value=sign_flip_p(shares),
        worst_case=worst_case,
        p_worst_case=p_worst_case,
        detectable=detectable_from_pair(
            [(x.passes, x.counted) for x, _ in both], [(y.passes, y.counted) for _, y in both]
        ),
        inputs_digest=_digest(a, b),
    )


def _pair(a: Side, b: Side) -> tuple[PairedTask, ...]:
    ours, theirs = {one.task: one for one in a.tasks}, {one.task: one for one in b.tasks}
    return tuple(
        PairedTask(task, ours.get(task), theirs.get(task)) for task in sorted(ours.keys() | theirs.keys())
    )


def _worst_case(tasks: Sequence[PairedTask]) -> tuple[Fraction, Fraction]:
    """(mean difference, p-value) when every slot that was not counted is decided against the side that is
    ahead, over all tasks that both planned; (0, 1) when then neither is ahead.

    Not recording one's own failures changes neither the passes nor the slots of a side, so it changes
    nothing here.
    """
    both = [(one.a, one.b) for one in tasks if one.a and one.b and one.a.slots and one.b.slots]
    a_ahead = [a.least - b.most for a, b in both]
    b_ahead = [a.most - b.least for a, b in both]
    if sum(a_ahead, Fraction(0)) > 0:
        return sum(a_ahead, Fraction(0)) / len(both), sign_flip_p(a_ahead)
    if sum(b_ahead, Fraction(0)) < 0:
        return sum(b_ahead, Fraction(0)) / len(both), sign_flip_p(b_ahead)
    return Fraction(0), Fraction(1)


def _digest(a: Side, b: Side) -> str:
    """Over both sides, whatever the order of their tasks."""
    ordered = (replace(one, tasks=tuple(sorted(one.tasks, key=lambda task: task.task))) for one in (a, b))
    return digest(list(ordered))


@dataclass(frozen=True)
class ManyCompared:
    """Many results: every pair, the Holm-adjusted p-value of every comparable one, and the rank ranges,
    None when a pair is not comparable or not paired."""

    pairs: tuple[Comparison, ...]
    adjusted: tuple[Fraction | None, ...]
    ranks: dict[str, RankRange] | None


def compare_all(sides: Sequence[Side]) -> ManyCompared:
    """Every pair of results under Holm's correction (ST-7). Names must differ; errors as `compare`."""
    names = [one.name for one in sides]
    if len(set(names)) != len(names):
        raise MalformedInputError("duplicate-agent", "two results have the same name")
    pairs = tuple(compare(a, b) for a, b in combinations(sorted(sides, key=lambda one: one.name), 2))
    tested = [one.p_worst_case for one in pairs if one.p_worst_case is not None]
    corrected = iter(holm(tested))
    adjusted = tuple(None if one.p_worst_case is None else next(corrected) for one in pairs)
    if len(tested) < len(pairs):
        return ManyCompared(pairs, adjusted, None)
    surely = []
    for one, p in zip(pairs, adjusted, strict=True):
        if p is not None and p <= ALPHA and one.worst_case:
            order = (one.a.name, one.b.name)
            surely.append(order if one.worst_case > 0 else order[::-1])
    return ManyCompared(pairs, adjusted, rank_ranges(sorted(names), surely))
