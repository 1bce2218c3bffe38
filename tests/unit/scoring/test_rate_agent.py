"""`rate-ai-agent/1`: figures, levels, composite, provenance, refusals and properties."""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from condition_builders import conditions
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import FAIL, PASS, USD, Screening, Spec, attest, plan_of, screening, screenings

from orchestrator import canonical
from scoring.classify import View
from scoring.errors import MalformedInputError, MethodologyMixError, ScoringError
from scoring.facts import Difficulty, ModelUse, Provenance, TaskTags
from scoring.levels import MIN_TASKS, THRESHOLDS, USE_CASES, Level, good_at, level
from scoring.numbers import exact
from scoring.rate_agent import rate, rate_screening
from scoring.rate_agent_attempts import END_OF_REASON, Attempt, End, attempts_of
from scoring.rate_agent_composite import WEIGHTS, composite, weighted
from scoring.rate_agent_result import AgentRating, MissingFigure, Status
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason

BUGS = TaskTags(("bug-fixing",), Difficulty.EASY)
BOTH = TaskTags(("bug-fixing", "testing"), Difficulty.HARD)


def raw(value: object) -> Any:
    """A value whose type is wrong on purpose."""
    return value


def attempt(
    task: str, passed: bool, end: End = End.COMPLETED, cost: int | None = USD, ms: int = 1000
) -> Attempt:
    return Attempt(task, passed, end, cost, ms, 4 if passed else 1, 4)


def rated(*attempts: Attempt, **changes: Any) -> AgentRating:
    values: dict[str, Any] = {"name": "agent", "provenance": Provenance.INDEPENDENT}
    return rate(attempts, **{**values, **changes})


def word(task: str, letters: str) -> list[Attempt]:
    """P passes, F fails, T times out, X is lost by the platform."""
    ends = {"P": End.COMPLETED, "F": End.COMPLETED, "T": End.TIMEOUT, "X": End.PLATFORM_FAULT}
    return [attempt(task, letter == "P", ends[letter]) for letter in letters]


ENDS = st.sampled_from(End)
CHECKS = st.integers(0, 4)


@st.composite
def attempt_lists(draw: st.DrawFn, min_size: int = 0) -> list[Attempt]:
    made = []
    for _ in range(draw(st.integers(min_size, 8))):
        end = draw(st.one_of(st.just(End.COMPLETED), ENDS))
        passed = end is End.COMPLETED and draw(st.booleans())
        made.append(
            Attempt(
                task=draw(st.sampled_from(["a", "b", "c"])),
                passed=passed,
                end=end,
                cost_nusd=draw(st.one_of(st.integers(0, 9 * USD), st.just(USD), st.none())),
                time_ms=draw(st.integers(0, 10**7)),
                checks_passed=4 if passed else draw(CHECKS),
                checks_total=4,
            )
        )
    return made


TAGS = {"a": BUGS, "b": BOTH}


@given(attempt_lists(), st.randoms(use_true_random=False))
def test_order_and_recomputation(attempts: list[Attempt], chance: Any) -> None:
    """Families 1 and 15: any order, the identical result and digest; canonical data without floats."""
    made = rated(*attempts, tags=TAGS, with_composite=True)
    shuffled = list(attempts)
    chance.shuffle(shuffled)
    assert rated(*shuffled, tags=TAGS, with_composite=True) == made
    data = made.as_data()
    assert canonical.decode_strict(canonical.encode(data)) == data


@given(attempt_lists(), st.data())
def test_a_pass_instead_of_a_failure_never_lowers_success_or_levels(
    attempts: list[Attempt], data: st.DataObject
) -> None:
    """Family 4: success, tasks passed and levels; the composite is not asserted (counter-example below)."""
    failing = [n for n, one in enumerate(attempts) if one.counted and not one.passed]
    if not failing:
        return
    at = data.draw(st.sampled_from(failing))
    better = list(attempts)
    better[at] = replace(attempts[at], passed=True, end=End.COMPLETED, checks_passed=4)
    before, after = rated(*attempts, tags=TAGS), rated(*better, tags=TAGS)
    assert before.success.value is not None and after.success.value is not None
    assert after.success.value > before.success.value
    assert after.tasks_passed >= before.tasks_passed
    for old, new in zip(before.use_cases, after.use_cases, strict=True):
        assert new.rate is not None and old.rate is not None and new.rate >= old.rate


def test_the_composite_is_not_monotone() -> None:
    """S4-26, reference 2.2, kept and warned about: failing everything, cheap to renormalise, beats rare
    costly success."""
    nothing = composite(Fraction(0), None, exact(60_000), Fraction(1)).value
    rare = composite(exact("1/60"), exact(40), exact(60_000), exact("0.95")).value
    assert nothing is not None and rare is not None
    assert float(nothing) == pytest.approx(0.288, abs=5e-4)
    assert float(rare) == pytest.approx(0.2475)
    assert nothing > rare


@given(attempt_lists(), st.sampled_from(["a", "b", "d"]))
def test_what_the_platform_lost_is_logged_and_changes_nothing(attempts: list[Attempt], task: str) -> None:
    """S4-14, family 3: every figure is the same, only the count outside grows."""
    before, after = rated(*attempts), rated(*attempts, *word(task, "X"))
    figures = [[figure for _, figure in one.figures()] for one in (before, after)]
    assert figures[0] == figures[1]
    assert (before.tasks_passed, before.tasks_attempted) == (after.tasks_passed, after.tasks_attempted)
    counted = [dict(one.outside).get(End.PLATFORM_FAULT, 0) for one in (before, after)]
    assert counted[1] == counted[0] + 1


def test_duplicating_a_task_may_change_pooled_success() -> None:
    """Family 5: attempts are pooled, unlike pack-score/1's mean over tasks."""
    once = rated(*word("a", "PPP"), *word("b", "FFF"))
    twice = rated(*word("a", "PPPPPP"), *word("b", "FFF"))
    assert once.success.value == 50
    assert twice.success.value == Fraction(200, 3)
    assert once.repeatability.value == twice.repeatability.value == 1


def test_a_task_passes_with_strictly_more_than_half() -> None:
    """S4-7."""
    made = rated(*word("a", "PF"), *word("b", "PPF"), *word("c", "PFF"), *word("d", "X"))
    assert (made.tasks_attempted, made.tasks_passed) == (3, 1)
    assert [one.solved for one in made.tasks] == [False, True, False, False]


def test_cost_is_dashed_by_one_unknown_attempt() -> None:
    """S4-8, G-5: a partial total would understate it; zero known cost is a figure."""
    made = rated(attempt("a", True), attempt("a", True, cost=None))
    for figure in (made.total_cost_usd, made.cost_per_task_usd, made.cost_per_success_usd):
        assert (figure.value, figure.reason) == (None, MissingFigure.UNKNOWN_COST)
    free = rated(attempt("a", True, cost=0))
    assert free.cost_per_success_usd.value == 0
    lost = rated(attempt("a", True), attempt("a", False, End.PLATFORM_FAULT, cost=None))
    assert lost.total_cost_usd.value == 1


def test_no_success_has_no_cost_per_success() -> None:
    """S4-10."""
    made = rated(*word("a", "FF"))
    assert made.cost_per_task_usd.value == 1
    assert (made.cost_per_success_usd.value, made.cost_per_success_usd.reason) == (
        None,
        MissingFigure.NO_SUCCESS,
    )


def test_failure_rate_leaves_wrong_output_out() -> None:
    """S4-13: only timeouts, crashes and tool errors; all count against success."""
    made = rated(*word("a", "PFT"), attempt("b", False, End.CRASH), attempt("b", False, End.TOOL_ERROR))
    assert made.failure_rate.value == Fraction(3, 5)
    assert dict(made.ends) == {End.COMPLETED: 1, End.TIMEOUT: 1, End.CRASH: 1, End.TOOL_ERROR: 1}
    assert made.success.value == 20


def test_partial_progress_says_how_many_it_rests_on() -> None:
    """S4-16: over attempts that did not pass and were graded; never in success."""
    ungraded = Attempt("a", False, End.CRASH, USD, 1)
    made = rated(*word("a", "PF"), ungraded)
    assert made.partial_progress.value == Fraction(1, 4)
    assert "1 of 2 attempts" in made.partial_progress.sum
    assert rated(ungraded).partial_progress.reason is MissingFigure.NO_CHECKS
    assert rated(*word("a", "P")).partial_progress.reason is MissingFigure.ALL_PASSED


def test_repeatability_counts_all_failed_as_the_same() -> None:
    """S4-15: tasks with two attempts or more."""
    made = rated(*word("a", "FF"), *word("b", "PF"), *word("c", "P"))
    assert made.repeatability.value == Fraction(1, 2)
    assert rated(*word("c", "P")).repeatability.reason is MissingFigure.ONE_ATTEMPT


def test_without_a_counted_attempt_everything_is_missing() -> None:
    """S4-3, G-5: never scored zero; not evaluable only when that is what happened."""
    nothing = rated()
    assert nothing.status is Status.NOT_EVALUATED
    assert {figure.value for _, figure in nothing.figures()} == {None}
    gone = rated(attempt("a", False, End.NOT_EVALUABLE), with_composite=True)
    assert gone.status is Status.NOT_EVALUABLE and gone.may_rank is False
    assert gone.composite is not None and gone.composite.value is None
    assert rated(*word("a", "X")).status is Status.NOT_EVALUATED


def test_levels_change_exactly_at_their_thresholds() -> None:
    """Family 13, S4-18, S4-20: 4/5, 1/2 and 1/5, compared exactly."""
    order = [word_ for _, word_ in THRESHOLDS] + [Level.NOT_YET_RELIABLE]
    for place, (least, at) in enumerate(THRESHOLDS):
        attempts = 1000
        passed = int(least * attempts)
        assert level(passed, attempts, MIN_TASKS) is at
        assert level(passed - 1, attempts, MIN_TASKS) is order[place + 1]
    assert level(799, 1000, 9) is Level.CAPABLE
    assert level(2, 2, 2) is Level.TOO_FEW_TASKS


@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n), st.integers(3, n + 3)))
)
def test_levels_never_fall_when_an_attempt_passes(given_: tuple[int, int, int]) -> None:
    """Family 4."""
    passed, attempts, tasks = given_
    if tasks > attempts:
        return
    order = [Level.NOT_YET_RELIABLE, Level.INCONSISTENT, Level.CAPABLE, Level.STRONG]
    before, after = level(passed, attempts, tasks), level(passed + 1, attempts, tasks)
    assert order.index(after) >= order.index(before)


def test_levels_by_use_case_and_difficulty() -> None:
    """S4-17, S4-19, S4-21: a task counts in each of its tags; numbers are shown also without a level."""
    tags = {"a": BUGS, "b": BOTH, "c": BUGS, "d": TaskTags((), None)}
    made = rated(*word("a", "PPP"), *word("b", "PFF"), *word("c", "PPP"), *word("d", "FFF"), tags=tags)
    assert [(one.group, one.passed, one.attempts, one.tasks, one.level) for one in made.use_cases] == [
        ("bug-fixing", 7, 9, 3, Level.CAPABLE),
        ("testing", 1, 3, 1, Level.TOO_FEW_TASKS),
    ]
    assert [(one.group, one.attempts) for one in made.difficulties] == [("easy", 6), ("hard", 3)]
    assert made.is_good_at("bug-fixing") and not made.is_good_at("bug-fixing", "testing")
    assert not made.is_good_at("refactoring")
    assert good_at({}, []) and not good_at({"testing": None}, ["testing"])
    assert len(USE_CASES) == 7


@pytest.mark.parametrize("label", [one for one in Provenance if one is not Provenance.INDEPENDENT])
def test_only_independent_results_get_levels_or_rank(label: Provenance) -> None:
    """S4-1, S4-2: the numbers stay, under their own label."""
    tags = dict.fromkeys("abc", BUGS)
    attempts = [one for task in "abc" for one in word(task, "PPP")]
    made = rated(*attempts, tags=tags, provenance=label)
    (group,) = made.use_cases
    assert group.level is None
    assert group.rate == 1
    assert made.success.value == 100
    assert not made.may_rank and not made.is_good_at("bug-fixing")
    assert made.as_data()["provenance"] == label.value


def test_the_composite_is_off_by_default_and_shown_with_its_parts() -> None:
    """S4-24, S4-25."""
    attempts = word("a", "PP")
    assert rated(*attempts).composite is None and rated(*attempts).as_data()["composite"] is None
    made = rated(*attempts, with_composite=True).composite
    assert made is not None
    assert dict(made.parts) == {
        "success": 1,
        "cost": Fraction(4, 5),
        "latency": 1 - Fraction(1, 1200),
        "repeatability": 1,
    }
    assert made.value == sum((WEIGHTS[name] * (value or 0) for name, value in made.parts), Fraction(0))


PARTS = st.dictionaries(
    st.sampled_from(list(WEIGHTS)), st.one_of(st.none(), st.fractions(0, 1)), min_size=4, max_size=4
)


@given(PARTS, st.fractions(Fraction(1, 9), 9))
def test_renormalisation(parts: dict[str, Fraction | None], scale: Fraction) -> None:
    """Family 8: within the available parts; scaling the weights changes nothing; none available is None."""
    there = [value for value in parts.values() if value is not None]
    value = weighted(parts, WEIGHTS)
    assert weighted(parts, {name: weight * scale for name, weight in WEIGHTS.items()}) == value
    if value is None:
        assert not there
    else:
        assert min(there) <= value <= max(there)
    assert weighted(parts, dict.fromkeys(WEIGHTS, Fraction(0))) is None


@given(attempt_lists(min_size=1))
def test_the_composite_alters_no_figure(attempts: list[Attempt]) -> None:
    """Family 8, S4-23: asking for it changes the composite and nothing else, the digest included."""
    off, on = rated(*attempts), rated(*attempts, with_composite=True)
    assert replace(on, composite=None) == off


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Attempt("a", True, End.TIMEOUT, 1, 1), "passed-end"),
        (lambda: Attempt("a", raw(1), End.COMPLETED, 1, 1), "attempt"),
        (lambda: Attempt("a", True, raw("completed"), 1, 1), "attempt"),
        (lambda: Attempt("a", True, End.COMPLETED, -1, 1), "number"),
        (lambda: Attempt("a", True, End.COMPLETED, raw(0.5), 1), "number"),
        (lambda: Attempt("a", True, End.COMPLETED, 1, -1), "number"),
        (lambda: Attempt("a", True, End.COMPLETED, 1, raw(float("nan"))), "number"),
        (lambda: Attempt("a", True, End.COMPLETED, 1, 1, 3, 4), "check-count"),
        (lambda: Attempt("a", False, End.COMPLETED, 1, 1, 5, 4), "pass-count"),
        (lambda: Attempt("a", False, End.COMPLETED, 1, 1, 3, None), "check-count"),
        (lambda: level(3, 2, 1), "pass-count"),
        (lambda: level(1, 2, 3), "pass-count"),
        (lambda: level(raw(True), 2, 1), "number"),
        (lambda: composite(Fraction(2), None, None, None), "range"),
        (lambda: composite(Fraction(1), Fraction(-1), None, None), "range"),
        (lambda: composite(raw(0.5), None, None, None), "number"),
        (lambda: rated(provenance=raw("independent")), "provenance"),
        (lambda: rated(*word("a", "P"), tags={"a": TaskTags(("cooking",), None)}), "use-case"),
    ],
)
def test_impossible_input_is_refused(make: Any, code: str) -> None:
    """Family 10: with a code, never coerced."""
    with pytest.raises(MalformedInputError) as caught:
        make()
    assert caught.value.code == code


def test_every_reason_has_its_failure_class() -> None:
    """S4-13: total over our reasons of passes and failures; only a pass is a pass."""
    ends = {reason for reason, outcome in OUTCOME_OF.items() if outcome in (Outcome.PASSED, Outcome.FAILED)}
    assert set(END_OF_REASON) == ends
    assert END_OF_REASON[Reason.WRONG_OUTPUT] is End.COMPLETED
    assert {END_OF_REASON[r] for r in (Reason.TIMEOUT, Reason.CRASH, Reason.TOOL_ERROR)} == {
        End.TIMEOUT,
        End.CRASH,
        End.TOOL_ERROR,
    }


def rated_screening(made: Screening, view: View = View.PUBLIC) -> AgentRating:
    return rate_screening(made.plan, made.tries(), view=view)


def test_from_verified_tries() -> None:
    """One classifier: passes, failures and what is outside, with planned slots that were never recorded."""
    made = screening("PPF", "PU-", "XCF", conditions=conditions(("t1", "t2", "t3")))
    rating = rated_screening(made)
    assert (rating.attempts, rating.passed) == (6, 3)
    assert rating.success.value == 50
    assert dict(rating.outside) == {End.PLATFORM_FAULT: 2, End.LEFT_OUT_CERTIFICATE: 1}
    assert dict(rating.outside_reasons) == {"never_recorded": 1, "sandbox_lost": 1, "all_checks_passed": 1}
    assert dict(rating.ends) == {End.COMPLETED: 2, End.TIMEOUT: 1}
    assert rating.provenance is Provenance.INDEPENDENT and rating.status is Status.RATED
    assert rating.conditions == made.plan.conditions
    subject = rating.subject
    assert subject is not None and subject.pack_digest == made.plan.pack_digest
    assert rating.as_data()["subject"]["agent_digest"] == made.plan.agent_digest


def test_another_agent_revision_is_another_result() -> None:
    """S4-29, family 15: the same attempts of another revision, model or judge have another digest."""
    made = screening("PPF")
    base = rated_screening(made)
    changes: dict[str, Any] = {
        "agent_version": "2",
        "judge": "judge@2026-01-01",
        "models": (ModelUse("main", "m2", None),),
    }
    for name, value in changes.items():
        plan = replace(made.plan, **{name: value})
        other = rate_screening(plan, made.tries(), view=View.PUBLIC)
        assert other.inputs_digest != base.inputs_digest
        assert other.success == base.success


def test_paid_tools_are_part_of_the_cost() -> None:
    """S4-11: tokens at list price plus paid tool calls; one of them unknown is unknown."""
    plan = plan_of({"t1": 2})
    both = [attest(plan, ("t1", n), PASS, paid_tool_calls_nusd=paid) for n, paid in ((1, USD), (2, 2 * USD))]
    made = rate_screening(plan, both, view=View.PUBLIC)
    assert made.total_cost_usd.value == 3 + Fraction(2, 10)
    half = [both[0], attest(plan, ("t1", 2), PASS)]
    assert rate_screening(plan, half, view=View.PUBLIC).total_cost_usd.reason is MissingFigure.UNKNOWN_COST


def test_not_evaluable_keeps_its_reason() -> None:
    """S4-3."""
    made = Screening(plan_of({"t1": 1}), {("t1", 1): Spec(Reason.AGENT_NOT_STARTABLE)})
    rating = rated_screening(made)
    assert rating.status is Status.NOT_EVALUABLE
    assert dict(rating.outside_reasons) == {"agent_not_startable": 1}


def test_unknown_conditions_give_no_label() -> None:
    """S4-1: a plan that does not say who evaluated it is not independent."""
    rating = rated_screening(screening("PPP"))
    assert rating.provenance is Provenance.NOT_EVALUATED and not rating.may_rank


def test_another_label_than_the_plans_is_refused() -> None:
    """S4-1, family 9: provenance is never merged."""
    plan = plan_of({"t1": 1}, conditions=conditions(("t1",)))
    foreign = attest(plan, ("t1", 1), FAIL, provenance=Provenance.PUBLISHER)
    with pytest.raises(ScoringError) as caught:
        attempts_of(plan, [foreign], View.PUBLIC)
    assert caught.value.code == "provenance-mix"


@given(screenings())
def test_the_public_view_is_a_function_of_public_tries(made: Screening) -> None:
    """Family 11: private tries change nothing in the public rating."""
    public = Screening(made.plan, {s: t if t and t.public else None for s, t in made.slots.items()})
    assert rated_screening(made) == rated_screening(public)


@given(screenings(public=st.just(True)), st.randoms(use_true_random=False))
def test_the_order_of_tries_changes_nothing(made: Screening, chance: Any) -> None:
    """Families 1 and 15."""
    tries = made.tries()
    chance.shuffle(tries)
    assert rate_screening(made.plan, tries, view=View.PUBLIC) == rated_screening(made)


def test_a_rating_is_no_number_and_never_mixes() -> None:
    """G-4, family 9."""
    card, rating = screening("PPP").card(), rated_screening(screening("PPP"))
    with pytest.raises(MethodologyMixError):
        sum([rating, card], start=raw(card))
    with pytest.raises(MethodologyMixError):
        max(rating, card)
    with pytest.raises(TypeError):
        rating + rating
    assert issubclass(MethodologyMixError, ScoringError)


def test_no_funder_by_signature() -> None:
    """Family 12, S4-36."""
    assert list(inspect.signature(rate_screening).parameters) == ["plan", "tries", "view", "with_composite"]


def test_the_arithmetic_of_every_figure_is_written_out() -> None:
    """UI-3: each figure's line states its sum and comes to the stated fraction."""
    made = rated(*word("a", "PPF"), *word("b", "TPP"))
    lines = made.arithmetic
    assert "success = 100 x 4 passed / 6 attempts = 200/3" in lines
    assert "cost per success = 6000000000 nano-USD / 1000000000 / 4 passed attempts = 3/2" in lines
    assert "failure rate = (1 timeout + 0 crash + 0 tool_error) / 6 attempts = 1/6" in lines
    assert (
        sum(f"{name} = " in line or f"{name}: —" in line for line in lines for name, _ in made.figures()) >= 9
    )
