"""The one input model: what a verified try and a plan accept, and what they refuse (property family 10)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from scoring_builders import FAIL, PASS, attest, conditions_of, plan_of, screening

from scoring.classify import View
from scoring.errors import MalformedInputError, ScoringError
from scoring.facts import Conditions, Difficulty, ModelUse, PriceSheet, Provenance, TaskTags
from scoring.inputs import inputs_digest
from scoring.pack_score import score_pack
from scoring.tries import VerifiedTry
from scoring.vocabulary import Outcome

PLAN = plan_of({"t1": 3, "t2": 1})
METERED: dict[str, Any] = {
    "metered": True,
    "requests": 4,
    "input_tokens": 1000,
    "cached_input_tokens": 400,
    "output_tokens": 200,
    "cost_nusd": 4_920_000,
    "standard_cost_nusd": 4_900_000,
    "paid_tool_calls_nusd": 80_000,
}


def made(**changes: Any) -> VerifiedTry:
    return attest(PLAN, ("t1", 1), PASS, **changes)


def code(**changes: Any) -> str:
    with pytest.raises(MalformedInputError) as caught:
        made(**changes)
    return caught.value.code


def test_unknown_is_none_and_never_zero() -> None:
    """G-5: a source that states only the old fields leaves every new one unknown."""
    bare = made(cost_nusd=None, metered=None)
    old = {"screening_id", "agent_id", "agent_digest", "pack_digest", "task_id", "index", "attempt"}
    old |= {"outcome", "reason", "certificate", "certificate_digest", "level", "public", "wall_ms"}
    assert {getattr(bare, name) for name in VerifiedTry.__slots__ if name not in old} == {None}
    assert bare.list_cost_nusd is None and bare.run_date_cost_nusd is None


def test_both_costs() -> None:
    """S1-26, S1-27, S4-11: list price of the model calls; the same plus paid tools on the run date."""
    full = made(**METERED)
    assert (full.list_cost_nusd, full.run_date_cost_nusd) == (4_900_000, 5_000_000)
    assert made(**METERED | {"paid_tool_calls_nusd": None}).run_date_cost_nusd is None
    free = made(**METERED | {"cost_nusd": 0, "standard_cost_nusd": 0, "paid_tool_calls_nusd": 0})
    assert (free.list_cost_nusd, free.run_date_cost_nusd) == (0, 0)


COUNTS = ("cost_nusd", "paid_tool_calls_nusd", "requests", "input_tokens", "cached_input_tokens")
MORE_COUNTS = ("output_tokens", "steps", "handed_off_unix_s", "finished_unix_s", "wall_ms", "index")


@pytest.mark.parametrize("name", [*COUNTS, *MORE_COUNTS])
@pytest.mark.parametrize("value", [-1, 1.0, True, "1", float("nan"), float("inf"), Fraction(1)])
def test_counts_are_whole_and_not_negative(name: str, value: object) -> None:
    """Negative money, floats, NaN, infinities, booleans and text are refused, never coerced."""
    assert code(**METERED | {name: value}) == "number"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"cached_input_tokens": 1001}, "cached-above-input"),
        ({"input_tokens": None}, "cached-above-input"),
        ({"metered": False}, "unmetered-figures"),
        ({"metered": 1}, "metered"),
        ({"metered": None, "cost_nusd": 0}, "zero-cost"),
        ({"metered": None, "paid_tool_calls_nusd": 0}, "zero-cost"),
        ({"checks_passed": 4, "checks_total": 3}, "check-count"),
        ({"checks_passed": 4}, "check-count"),
        ({"checks_total": 4}, "check-count"),
        ({"checks_passed": True, "checks_total": 3}, "number"),
        ({"checks_passed": -1, "checks_total": 3}, "number"),
        ({"reward": 1}, "number"),
        ({"reward": 0.5}, "number"),
        ({"reward": True}, "number"),
        ({"handed_off_unix_s": 10, "finished_unix_s": 9}, "time-order"),
        ({"outcome": Outcome.FAILED}, "reason-outcome"),
        ({"certificate_digest": None}, "certificate"),
    ],
)
def test_input_that_no_run_can_produce(changes: dict[str, Any], want: str) -> None:
    """Each with its own code."""
    assert code(**METERED | changes) == want


def test_the_edges_are_legal() -> None:
    """All cached, all checks, no time at all, a reward on any scale: nothing true is refused."""
    edge = METERED | {"cached_input_tokens": 1000, "checks_passed": 3, "checks_total": 3}
    low = Fraction(-7, 2)
    assert made(**edge, reward=low, handed_off_unix_s=9, finished_unix_s=9).reward == low
    assert made(**METERED, checks_passed=0, checks_total=0).checks_total == 0
    assert made(metered=False, cost_nusd=None).metered is False


def test_a_try_cannot_be_changed_or_made_elsewhere() -> None:
    """The new fields are as fixed as the old ones."""
    one = made(**METERED)
    with pytest.raises(AttributeError):
        one.steps = 3
    with pytest.raises(TypeError):
        VerifiedTry(object(), steps=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("provenance", Provenance.PUBLISHER),
        ("models", (ModelUse("main", "m", None),)),
        ("price_sheet", PriceSheet("list", "2026-11-01", "c" * 64)),
        ("reward", Fraction(1, 3)),
        ("steps", 3),
        ("standard_cost_nusd", 5),
        ("metered", True),
        ("finished_unix_s", 1),
        ("runner_version", "1"),
    ],
)
def test_every_new_field_is_in_the_inputs_digest(name: str, value: object) -> None:
    """Family 15: two inputs that differ in one field have two digests."""
    one = made(cost_nusd=None, metered=None)
    other = made(**{"cost_nusd": None, "metered": None, name: value})
    assert getattr(other, name) == value
    assert inputs_digest(PLAN, [one]) != inputs_digest(PLAN, [other])


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_version": "2"},
        {"models": (ModelUse("main", "m", "2026-01-01"),)},
        {"conditions": conditions_of()},
        {"conditions": conditions_of(permitted_tools=frozenset({"shell"}))},
        {"conditions": conditions_of(permitted_tools=None)},
        {"tags": {"t1": TaskTags(("testing",), Difficulty.HARD)}},
    ],
)
def test_every_new_field_of_the_plan_is_in_the_inputs_digest(changes: dict[str, Any]) -> None:
    """Family 15, S4-29: another version or configuration is another input."""
    assert inputs_digest(PLAN, []) != inputs_digest(replace(PLAN, **changes), [])


def test_the_inputs_digest_does_not_see_the_order_of_tools_or_tags() -> None:
    """S4-33: permitted tools are a set; tags are kept by task."""
    tags = {"t1": TaskTags(("testing",), None), "t2": TaskTags((), Difficulty.EASY)}
    turned = dict(reversed(tags.items()))
    one = replace(PLAN, conditions=conditions_of(permitted_tools=frozenset(["a", "b"])), tags=tags)
    other = replace(PLAN, conditions=conditions_of(permitted_tools=frozenset(["b", "a"])), tags=turned)
    assert inputs_digest(one, []) == inputs_digest(other, [])


def test_plan_facts_are_unknown_unless_stated() -> None:
    """A plan from an older caller says nothing about conditions, tags, models or population."""
    assert (PLAN.conditions, PLAN.tags, PLAN.models, PLAN.population, PLAN.provenance) == (None,) * 5
    stated = replace(PLAN, conditions=conditions_of(provenance=Provenance.COMMUNITY))
    assert stated.provenance is Provenance.COMMUNITY


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"tags": {"t9": TaskTags((), None)}}, "foreign-task"),
        ({"population": "own-suite"}, "population"),
    ],
)
def test_plan_refuses(changes: dict[str, Any], want: str) -> None:
    """Tags of a task outside the pack; a population that is only a word."""
    with pytest.raises(MalformedInputError) as caught:
        replace(PLAN, **changes)
    assert caught.value.code == want


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"repeats": 0}, "number"),
        ({"repeats": True}, "number"),
        ({"step_limit": 0}, "number"),
        ({"step_limit": 1.5}, "number"),
        ({"timeouts_ms": (("t1", 0),)}, "number"),
        ({"provenance": "independently-evaluated"}, "provenance"),
    ],
)
def test_conditions_refuse(changes: dict[str, Any], want: str) -> None:
    """Limits are positive whole numbers; a label is one of the four."""
    with pytest.raises(MalformedInputError) as caught:
        conditions_of(**changes)
    assert caught.value.code == want


@pytest.mark.parametrize(
    ("use_cases", "difficulty", "want"),
    [
        (("a", "b", "c"), None, "use-cases"),
        (("a", "a"), None, "use-cases"),
        ((), "hard", "difficulty"),
    ],
)
def test_tags_refuse(use_cases: tuple[str, ...], difficulty: Any, want: str) -> None:
    """S4-17: one or two tags; S4-22: three classes."""
    with pytest.raises(MalformedInputError) as caught:
        TaskTags(use_cases, difficulty)
    assert caught.value.code == want


def test_conditions_know_unlimited_from_nothing() -> None:
    """No step limit and unrestricted tools are conditions, not gaps."""
    free: Conditions = conditions_of(step_limit=None, permitted_tools=None)
    assert free != conditions_of(permitted_tools=frozenset())


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"provenance": Provenance.PUBLISHER}, "provenance-mix"),
        ({"pack_version": "2"}, "foreign-pack"),
        ({"agent_version": "2"}, "foreign-agent"),
    ],
)
def test_a_try_of_other_facts_than_the_plan_is_refused(changes: dict[str, Any], want: str) -> None:
    """Family 9, S3-2, S4-1: labels and versions are never mixed; what one side does not state is no clash."""
    plan = replace(PLAN, agent_version="1", conditions=conditions_of())
    good: dict[str, Any] = {"provenance": Provenance.INDEPENDENT, "pack_version": "1", "agent_version": "1"}
    score_pack(plan, [made(**good), attest(plan, ("t2", 1), PASS)], view=View.PUBLIC, do_nothing_floor=None)
    score_pack(PLAN, [made(provenance=Provenance.PUBLISHER)], view=View.PUBLIC, do_nothing_floor=None)
    with pytest.raises(ScoringError) as caught:
        score_pack(plan, [made(**good | changes)], view=View.PUBLIC, do_nothing_floor=None)
    assert caught.value.code == want


def test_facts_change_no_pack_score() -> None:
    """The card's figures rest on the old fields only: facts added to each try change the digest alone."""
    whole = screening("PPF", "PU")
    card = whole.card()
    facts: dict[str, Any] = {"steps": 9, "reward": Fraction(1), "provenance": Provenance.INDEPENDENT}
    richer = [attest(whole.plan, slot, spec or FAIL, **facts) for slot, spec in whole.slots.items()]
    other = score_pack(whole.plan, richer, view=View.PUBLIC, do_nothing_floor=None)
    assert replace(other, inputs_digest="") == replace(card, inputs_digest="")
    assert other.inputs_digest != card.inputs_digest
