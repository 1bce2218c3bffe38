"""Comparability with reasons (S4-33, S4-34), and comparing two or many results (ST-4, ST-5, ST-7)."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from condition_builders import conditions, side, side_of
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import Screening, screening, screenings, specs

from orchestrator import canonical
from scoring.classify import View
from scoring.comparability import Condition, differences
from scoring.compare import compare, compare_all, side_of_rating
from scoring.comparison import Comparison, TaskCounts, Verdict, show_p
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.facts import Conditions, Provenance
from scoring.rate_agent import rate_screening

CHANGES: dict[Condition, dict[str, Any]] = {
    Condition.SUITE_VERSION: {"suite_version": "coding-core@2"},
    Condition.TIMEOUT: {"timeouts_ms": (("t1", 900_000), ("t2", 901_000))},
    Condition.STEP_LIMIT: {"step_limit": None},
    Condition.NETWORK_POLICY: {"network_policy": "open"},
    Condition.PERMITTED_TOOLS: {"permitted_tools": None},
    Condition.HARDWARE_CLASS: {"hardware_class": "c8"},
    Condition.REPEATS: {"repeats": 5},
    Condition.PROVENANCE: {"provenance": Provenance.PUBLISHER},
}
CONDITIONS = st.builds(
    lambda chosen: conditions(**{k: v for one in chosen for k, v in CHANGES[one].items()}),
    st.sets(st.sampled_from(list(CHANGES))),
)


@pytest.mark.parametrize("changed", list(CHANGES))
def test_each_condition_is_a_reason_of_its_own(changed: Condition) -> None:
    """S4-33, S4-34: one difference, one reason, with both sides in words."""
    (reason,) = differences(conditions(), conditions(**CHANGES[changed]))
    assert reason.condition is changed
    assert reason.text.startswith(f"not comparable: {changed.value.replace('_', ' ')} ")
    assert reason.a != reason.b


@given(CONDITIONS, CONDITIONS)
def test_comparability_is_reflexive_and_symmetric(a: Conditions, b: Conditions) -> None:
    """Family 13; the reasons come in the document's order."""
    assert differences(a, a) == ()
    there, back = differences(a, b), differences(b, a)
    assert [one.condition for one in there] == [one.condition for one in back]
    order = list(Condition)
    assert [order.index(one.condition) for one in there] == sorted(order.index(o.condition) for o in there)


def test_the_runtime_is_part_of_the_hardware() -> None:
    """S4-33: the same class under another container runtime is another hardware class."""
    (reason,) = differences(conditions(), conditions(runtime="runsc"))
    assert (reason.condition, reason.a, reason.b) == (
        Condition.HARDWARE_CLASS,
        "c4 with runc",
        "c4 with runsc",
    )


def test_no_tools_is_not_no_restriction() -> None:
    """S4-33: tools are compared as a set; the empty set and unrestricted differ."""
    none, free = conditions(permitted_tools=frozenset()), conditions(permitted_tools=None)
    (reason,) = differences(none, free)
    assert reason.condition is Condition.PERMITTED_TOOLS


def test_other_tasks_are_another_suite() -> None:
    """S4-33: a selection of tasks is a suite of its own; the timeout of common tasks is still compared."""
    (reason,) = differences(conditions(("t1", "t2")), conditions(("t1", "t3")))
    assert reason.condition is Condition.SUITE_VERSION
    assert reason.a == "coding-core@1 (1 tasks of its own, first t2)"
    other = conditions(timeouts_ms=(("t1", 1500), ("t3", 900_000)))
    reasons = differences(conditions(("t1", "t2")), other)
    assert [one.condition for one in reasons] == [Condition.SUITE_VERSION, Condition.TIMEOUT]
    assert reasons[1].text == "not comparable: timeout 900 s vs 1.5 s (task t1)"


ALL, NONE = (3, 3), (0, 3)


def test_a_clear_difference() -> None:
    """ST-4: eight tasks one way are told apart; the sentence says which, by how much and how sure."""
    made = compare(side("good", *[ALL] * 8), side("poor", *[NONE] * 8))
    assert made.verdict is Verdict.A_ABOVE
    assert made.difference == made.worst_case == 1
    assert made.p_value == made.p_worst_case == Fraction(1, 128)
    assert made.sentence == "good passes more than poor on these tasks: difference 100.0 points, p = 0.0078"
    assert re.fullmatch(
        r"differences under \d+\.\d points cannot be told apart here", made.noise_sentence or ""
    )


def test_a_small_difference_is_noise() -> None:
    """S4-35: the sentence says so, and how large a difference would have to be."""
    made = compare(side("a", *[(2, 3)] * 10), side("b", *[(2, 3)] * 8, (1, 3), (3, 3)))
    assert made.verdict is Verdict.NOT_TOLD_APART and made.p_value == 1
    assert made.sentence.startswith("a and b cannot be told apart: difference 0.0 points")
    few = compare(side("a", *[ALL] * 5), side("b", *[NONE] * 5))
    assert few.verdict is Verdict.NOT_TOLD_APART
    assert few.noise_sentence == "no difference can be told apart here: 5 tasks are too few for the test"


def test_what_is_not_comparable_concludes_nothing() -> None:
    """S4-34: reasons instead of a conclusion; the counts of every task stay readable."""
    other = side("b", *[NONE] * 8)
    assert other.conditions is not None
    other = replace(other, conditions=replace(other.conditions, hardware_class="c8"))
    made = compare(side("a", *[ALL] * 8), other)
    assert made.verdict is Verdict.NOT_COMPARABLE and not made.comparable
    assert {made.difference, made.p_value, made.worst_case, made.p_worst_case, made.detectable} == {None}
    assert made.noise_sentence is None
    assert made.sentence == "not comparable: hardware class c4 with runc vs c8 with runc"
    assert len(made.tasks) == 8 and made.tasks[0].difference == 1


def test_unknown_conditions_judge_and_digest_are_reasons() -> None:
    """S3-2, S3-4, S4-33: what is not known to be equal is not compared."""
    a = side("a", ALL)
    for other, condition in (
        (replace(a, conditions=None), Condition.UNKNOWN),
        (replace(a, judge="judge@2026-01-01"), Condition.JUDGE),
        (replace(a, pack_digest="c" * 64), Condition.SUITE_VERSION),
        (replace(a, pack_digest=None), Condition.SUITE_VERSION),
    ):
        for made in (compare(a, other), compare(other, a)):
            assert [one.condition for one in made.reasons] == [condition]


def test_ratings_carry_their_judge_and_pack() -> None:
    """S3-2, S3-4: also under rate-ai-agent/1 another judge or pack is a reason."""
    made = screening("PPP", conditions=conditions(("t1",)))
    changes: dict[Condition, dict[str, Any]] = {
        Condition.JUDGE: {"judge": "judge@2026-01-01"},
        Condition.SUITE_VERSION: {"pack_digest": "d" * 64},
    }
    for condition, change in changes.items():
        sides = [
            side_of_rating(rate_screening(plan, [], view=View.PUBLIC), name)
            for name, plan in (("a", made.plan), ("b", replace(made.plan, **change)))
        ]
        assert [one.condition for one in compare(*sides).reasons] == [condition]


def test_two_methodologies_are_never_compared() -> None:
    """G-4, family 9: a typed error, not a reason."""
    made = screening("PPP", conditions=conditions(("t1",)))
    rating = side_of_rating(rate_screening(made.plan, made.tries(), view=View.PUBLIC))
    with pytest.raises(MethodologyMixError) as caught:
        compare(side("a", ALL), rating)
    assert caught.value.code == "methodology-mix"
    comparison = compare(rating, rating)
    with pytest.raises(MethodologyMixError):
        sorted([comparison, made.card()])
    with pytest.raises(TypeError):
        sum([comparison, comparison])


def test_failures_that_are_not_recorded_win_nothing() -> None:
    """Reference section 6: tries that A lost are decided against A before A is called better."""
    honest = compare(side("a", *[(2, 3)] * 8), side("b", *[(2, 3)] * 8))
    assert honest.verdict is Verdict.NOT_TOLD_APART
    hidden = compare(side("a", *[(2, 2, 3)] * 8), side("b", *[(2, 3)] * 8))
    assert hidden.p_value == Fraction(1, 128)
    assert hidden.worst_case == 0 and hidden.p_worst_case == 1
    assert hidden.verdict is Verdict.NOT_TOLD_APART
    assert "with every uncounted slot against the leader p = 1.0000" in hidden.sentence


def test_a_lead_that_survives_the_worst_case_stands() -> None:
    """Reference section 6: lost tries do not undo a difference that is larger than they are."""
    made = compare(side("a", (2, 2, 3), *[ALL] * 9), side("b", *[NONE] * 10))
    assert made.verdict is Verdict.A_ABOVE
    assert made.worst_case == Fraction(29, 30)
    assert "with every uncounted slot against the leader p = 0.0020" in made.sentence


def test_tasks_that_one_side_could_not_count_say_nothing() -> None:
    """ST-4: paired tasks only; the rest is listed with a dash."""
    made = compare(side("a", ALL, (0, 0, 3)), side("b", NONE, ALL))
    assert made.paired == 1 and made.difference == 1
    assert made.tasks[1].difference is None
    nothing = compare(side("a", (0, 0, 3)), side("b", ALL))
    assert (nothing.verdict, nothing.noise_sentence) == (Verdict.NOTHING_PAIRED, None)
    assert "no task on which both" in nothing.sentence


COUNTS = st.integers(0, 3).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.just(3)))
TABLES = st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=9)


@given(TABLES)
def test_swapping_the_sides_mirrors_the_comparison(table: list[tuple[Any, Any]]) -> None:
    """Families 13 and 14: same p, same detectable difference, the difference negated, the verdict swapped."""
    a, b = side("a", *[x for x, _ in table]), side("b", *[y for _, y in table])
    there, back = compare(a, b), compare(b, a)
    assert (there.p_value, there.p_worst_case) == (back.p_value, back.p_worst_case)
    assert there.detectable == back.detectable
    assert there.difference == (None if back.difference is None else -back.difference)
    assert there.worst_case == (None if back.worst_case is None else -back.worst_case)
    if all(x[1] == y[1] == 3 for x, y in table):
        assert (there.difference, there.p_value) == (there.worst_case, there.p_worst_case)
    swapped = {Verdict.A_ABOVE: Verdict.B_ABOVE, Verdict.B_ABOVE: Verdict.A_ABOVE}
    assert there.verdict is swapped.get(back.verdict, back.verdict)


@given(TABLES)
def test_a_result_compared_with_itself(table: list[tuple[Any, Any]]) -> None:
    """Family 14: all-zero differences have p = 1."""
    a = side("a", *[x for x, _ in table])
    made = compare(a, replace(a, name="b"))
    assert made.verdict in (Verdict.NOT_TOLD_APART, Verdict.NOTHING_PAIRED)
    assert made.p_value in (1, None)


@given(TABLES)
def test_the_data_is_canonical_and_repeatable(table: list[tuple[Any, Any]]) -> None:
    """Family 15: the order of the tasks changes nothing, the digest included; no floats."""
    a, b = side("a", *[x for x, _ in table]), side("b", *[y for _, y in table])
    data = compare(a, b).as_data()
    assert canonical.decode_strict(canonical.encode(data)) == data
    shuffled = compare(replace(a, tasks=a.tasks[::-1]), b).as_data()
    assert shuffled == data


@given(TABLES)
def test_the_mean_difference_can_be_done_again_from_the_text(table: list[tuple[Any, Any]]) -> None:
    """UI-3."""
    made = compare(side("a", *[x for x, _ in table]), side("b", *[y for _, y in table]))
    lines = [line for line in made.arithmetic if line.startswith("mean difference")]
    assert bool(lines) == (made.difference is not None)
    for line in lines:
        terms = [Fraction(term) for term in re.findall(r"\((-?\d+(?:/\d+)?)\)", line)]
        total, stated = re.search(r"/ (\d+) = (-?\d+/\d+)$", line).groups()  # type: ignore[union-attr]
        assert sum(terms, Fraction(0)) / int(total) == Fraction(stated) == made.difference


@given(screenings(public=st.just(True)), st.data())
def test_deleting_ones_own_failures_never_wins(one: Screening, data: st.DataObject) -> None:
    """Family 2, reference section 6: whatever a screening leaves unrecorded of its own failures, its worst
    case stays the same; losing anything else never helps it."""
    other = Screening(one.plan, {slot: data.draw(specs(st.just(True))) for slot in one.slots})
    base = compare(side_of(one, "a"), side_of(other, "b"))
    for slot, spec in one.slots.items():
        if spec is None:
            continue
        less = compare(side_of(one.put(slot, None), "a"), side_of(other, "b"))
        assert less.verdict is not Verdict.A_ABOVE or base.verdict is Verdict.A_ABOVE
        if less.worst_case is not None and base.worst_case is not None:
            assert max(less.worst_case, Fraction(0)) <= max(base.worst_case, Fraction(0))


def test_many_results_get_corrected_tests_and_rank_ranges() -> None:
    """ST-7: Holm over all pairs; ranks are ranges unless everything is separated."""
    sides = [side("top", *[ALL] * 12), side("bottom", *[NONE] * 12), side("twin", *[ALL] * 12)]
    made = compare_all(sides)
    assert len(made.pairs) == 3
    assert made.ranks is not None
    shown = {name: one.display for name, one in made.ranks.items()}
    assert shown == {"top": "1-2", "twin": "1-2", "bottom": "3"}
    assert {frozenset((one.a.name, one.b.name)) for one in made.pairs} == {
        frozenset(pair) for pair in combinations(("top", "twin", "bottom"), 2)
    }
    for one, adjusted in zip(made.pairs, made.adjusted, strict=True):
        assert adjusted is not None and one.p_worst_case is not None and adjusted >= one.p_worst_case
    assert compare_all(sides[::-1]) == made


def test_correction_can_take_a_single_win_away() -> None:
    """ST-7: p = 1/32 alone is told apart, among six pairs it is not."""
    alone = compare(side("a", *[ALL] * 6), side("b", *[NONE] * 6))
    assert alone.verdict is Verdict.A_ABOVE
    many = compare_all([side("a", *[ALL] * 6), *(side(name, *[NONE] * 6) for name in ("b", "c", "d"))])
    assert many.ranks is not None
    assert {one.display for one in many.ranks.values()} == {"1-4"}


def test_ranks_need_every_pair() -> None:
    """ST-7: with a pair that is not comparable there are no ranks at all."""
    other = replace(side("c", *[NONE] * 8), conditions=None)
    made = compare_all([side("a", *[ALL] * 8), side("b", *[NONE] * 8), other])
    assert made.ranks is None
    assert sum(p is None for p in made.adjusted) == 2
    with pytest.raises(MalformedInputError) as caught:
        compare_all([side("a", ALL), side("a", NONE)])
    assert caught.value.code == "duplicate-agent"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: TaskCounts("t", 2, 1, 3), "pass-count"),
        (lambda: TaskCounts("t", 1, 3, 2), "pass-count"),
        (lambda: TaskCounts("t", -1, 3, 3), "number"),
        (lambda: side("a", tasks=(TaskCounts("t", 1, 1, 1),) * 2), "duplicate-task"),
    ],
)
def test_impossible_input_is_refused(make: Any, code: str) -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError) as caught:
        make()
    assert caught.value.code == code


def test_small_p_values_are_not_shown_as_zero() -> None:
    """G-2: rounded once, and never to a zero that it is not."""
    assert [show_p(Fraction(1, 2**20)), show_p(Fraction(1, 20)), show_p(None)] == ["< 0.0001", "0.0500", "—"]
    assert Comparison.methodology == "statistics/1"
