"""`six-component/1` and its cliff variant: components, final score, order, refusals, properties."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import FAIL, FAULT, PASS, TIMEOUT, attest, plan_of

from orchestrator import canonical
from scoring.classify import View
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.numbers import exact
from scoring.six_component import WEIGHTS, final_score, score_submission
from scoring.six_component_cliff import CAP, score_submission_with_cliff
from scoring.six_component_inputs import (
    AdversarialTest,
    Deliverable,
    DeliverableMarks,
    Delivery,
    QualityMarks,
    Running,
    SecurityScan,
    Severity,
    StaticTests,
    Submission,
    SuiteCount,
)
from scoring.six_component_order import rank
from scoring.six_component_parts import (
    DELIVERABLE_WEIGHT,
    QUALITY_WEIGHT,
    SUITE_SHARE,
    adversarial_score,
    security_score,
    static_score,
)
from scoring.six_component_result import ComponentName, MissingPart, SixComponentScore
from scoring.six_component_tries import submission_of


def raw(value: object) -> Any:
    """A value whose type is wrong on purpose."""
    return value


def quality(*totals: object) -> dict[str, QualityMarks]:
    """Judges whose four marks are all the same."""
    return {f"judge-{n}": QualityMarks(*[exact(total)] * 4) for n, total in enumerate(totals)}


def written(name: str, *marks: DeliverableMarks) -> Deliverable:
    return Deliverable(name, Delivery.WRITTEN, {f"judge-{n}": mark for n, mark in enumerate(marks)})


EXAMPLE_MARKS = DeliverableMarks(*(Fraction(mark) for mark in (80, 75, 70, 65)))
EXAMPLE = Submission(
    name="worked example",
    static=StaticTests(SuiteCount(10, 10), SuiteCount(6, 6), SuiteCount(2, 4)),
    adversarial=(
        *[AdversarialTest(Severity.CRITICAL, True)] * 4,
        *[AdversarialTest(Severity.MEDIUM, True)] * 2,
        *[AdversarialTest(Severity.CRITICAL, False)] * 2,
    ),
    code_quality=quality(72, 68, 76),
    deliverables=(written("root cause", EXAMPLE_MARKS, EXAMPLE_MARKS, EXAMPLE_MARKS),),
    security=SecurityScan("scanner 1", "rules 2026-07", medium=1),
    stability=Running(),
    iterations=4,
    time_ms=2_467_000,
    scores=tuple(Fraction(score) for score in (60, 72, 78, 82)),
)
PERFECT = replace(
    EXAMPLE,
    name="perfect",
    static=StaticTests(SuiteCount(1, 1)),
    adversarial=(AdversarialTest(Severity.LOW, True),),
    code_quality=quality(100, 100, 100),
    deliverables=(written("adr", *[DeliverableMarks(*[Fraction(100)] * 4)] * 3),),
    security=SecurityScan("scanner 1", "rules 2026-07"),
)
TWICE = (Deliverable("a", Delivery.MISSING),) * 2
COMPONENTS = ("static", "adversarial", "code_quality", "deliverables", "security", "stability")


def test_the_documents_worked_example() -> None:
    """S2-1, S2-2, S2-30: 31.5 + 10.5 + 14.4 + 11.175 + 9.5 + 5 = 82.075, shown 82."""
    made = score_submission(EXAMPLE)
    assert made.raw == exact("82.075") and made.score == 82
    products = [one.product for one in made.components]
    assert products == [exact(t) for t in ("31.5", "10.5", "14.4", "11.175", "9.5", "5")]
    assert (made.critical_flag, made.human_review) == (False, ())
    assert made.trajectory is not None and made.trajectory.display == "[60 → 72 → 78 → 82]"


def test_weights_sum_to_one() -> None:
    """S2-1, S2-7, S2-13, S2-21: each table is a partition."""
    for table in (WEIGHTS, SUITE_SHARE, QUALITY_WEIGHT, DELIVERABLE_WEIGHT):
        assert sum(table.values(), Fraction(0)) == 1


@pytest.mark.parametrize("part", COMPONENTS)
def test_a_missing_component_means_no_final_score(part: str) -> None:
    """S2-3: nothing is renormalised, the other components stay, the dash has a reason."""
    changes: dict[str, Any] = {part: None}
    made = score_submission(replace(EXAMPLE, **changes))
    assert (made.raw, made.score, made.raw_reason) == (None, None, MissingPart.COMPONENT_MISSING)
    missing = [one for one in made.components if one.value is None]
    assert [one.reason for one in missing] == [MissingPart.NOT_MEASURED]
    assert missing[0].name.value == {"deliverables": "deliverable"}.get(part, part)
    assert any(line.startswith("final score: —") for line in made.arithmetic)


@pytest.mark.parametrize(
    ("part", "empty", "reason"),
    [
        ("static", StaticTests(), MissingPart.NO_TESTS),
        ("adversarial", (), MissingPart.NO_TESTS),
        ("deliverables", (), MissingPart.NOTHING_ASKED),
    ],
)
def test_nothing_measured_is_missing_and_not_zero(part: str, empty: Any, reason: MissingPart) -> None:
    """S2-12, G-5."""
    changes: dict[str, Any] = {part: empty}
    made = score_submission(replace(EXAMPLE, **changes))
    assert [one.reason for one in made.components if one.value is None] == [reason]
    assert made.raw is None


def test_the_arithmetic_comes_to_the_stated_result() -> None:
    """S2-30: the sum that is printed, done again from its own terms."""
    (line,) = [line for line in score_submission(EXAMPLE).arithmetic if line.startswith("final = ")]
    terms = re.findall(r"(\d+/?\d*) x (\d+/?\d*)", line)
    assert len(terms) == 6
    again = sum((Fraction(weight) * Fraction(value) for weight, value in terms), Fraction(0))
    assert again == exact("82.075") and f"= {again.numerator}/{again.denominator}, shown 82" in line


def test_a_critical_issue_costs_what_the_formula_says() -> None:
    """S2-24: 2.5 points and a flag; even with adversarial 0 the score is 82.5, above the document's 75."""
    critical = SecurityScan("scanner 1", "rules 2026-07", critical=1)
    made = score_submission(replace(PERFECT, security=critical))
    assert (made.raw, made.score, made.critical_flag) == (exact("97.5"), 98, True)
    worse = replace(PERFECT, security=critical, adversarial=(AdversarialTest(Severity.LOW, False),))
    assert score_submission(worse).raw == exact("82.5")


def test_the_cliff_is_another_methodology() -> None:
    """S2-24: capped at 75 with a critical issue only, own id, kept beside the uncapped value."""
    critical = replace(PERFECT, security=SecurityScan("s", "r", critical=1))
    made = score_submission_with_cliff(critical)
    assert (made.raw, made.score, made.uncapped, made.capped) == (CAP, 75, exact("97.5"), True)
    assert made.methodology == "six-component-cliff/1" != score_submission(critical).methodology
    assert score_submission_with_cliff(PERFECT).raw == score_submission(PERFECT).raw == 100
    low = replace(critical, static=StaticTests(SuiteCount(0, 1)))
    assert score_submission_with_cliff(low).raw == score_submission(low).raw == exact("62.5")
    none = replace(critical, stability=None)
    assert score_submission_with_cliff(none).raw is None
    codes = [{reading.code for reading in one.readings} for one in (made, SixComponentScore)]
    assert codes[0] ^ codes[1] == {"no-cap", "cliff"}


def test_the_two_ids_never_mix() -> None:
    """G-4, family 9: no sum, no order, no rank over both."""
    plain, cliff = score_submission(EXAMPLE), score_submission_with_cliff(PERFECT)
    with pytest.raises(MethodologyMixError):
        plain + cliff
    with pytest.raises(MethodologyMixError):
        sorted([plain, cliff])
    with pytest.raises(MethodologyMixError):
        rank([plain, cliff])
    with pytest.raises(TypeError):
        plain + plain


def test_human_review_names_the_panel() -> None:
    """S2-17: the ambiguous branch flags code quality or the deliverable it happened on."""
    torn = [DeliverableMarks(*[Fraction(mark)] * 4) for mark in (20, 50, 90)]
    made = score_submission(
        replace(EXAMPLE, code_quality=quality(60, 70, 80), deliverables=(written("adr", *torn),))
    )
    assert made.human_review == (
        "code quality: judges could not agree",
        "deliverable adr: judges could not agree",
    )


def test_a_missing_or_placeholder_deliverable_is_zero_of_its_share() -> None:
    """S2-22: 0 for that deliverable, mean over all that were asked for."""
    asked = (*(EXAMPLE.deliverables or ()), Deliverable("adr", Delivery.MISSING))
    made = score_submission(replace(EXAMPLE, deliverables=asked))
    assert made.component(ComponentName.DELIVERABLE).value == exact("37.25")
    todo = (*asked, Deliverable("notes", Delivery.PLACEHOLDER))
    made = score_submission(replace(EXAMPLE, deliverables=todo))
    assert made.component(ComponentName.DELIVERABLE).value == exact("74.5") / 3


def test_each_judges_total_comes_first() -> None:
    """S2-14: three totals of 25 agree, although the judges agree in no dimension."""
    marks = {
        "a": QualityMarks(*(Fraction(m) for m in (100, 0, 0, 0))),
        "b": QualityMarks(*(Fraction(m) for m in (0, 100, 0, 0))),
        "c": QualityMarks(*(Fraction(m) for m in (0, 0, 100, 0))),
    }
    made = score_submission(replace(EXAMPLE, code_quality=marks))
    assert made.component(ComponentName.CODE_QUALITY).value == 25  # dimension by dimension it would be 0


ADVERSARIAL = st.lists(st.builds(AdversarialTest, st.sampled_from(Severity), st.booleans()), max_size=6)


@st.composite
def submissions(draw: st.DrawFn) -> Submission:
    counts = st.builds(lambda a, b: SuiteCount(min(a, b), max(a, b)), st.integers(0, 9), st.integers(1, 9))
    marks = st.lists(st.integers(0, 100), min_size=3, max_size=3)
    names = draw(st.sets(st.sampled_from(["adr", "docs", "root"]), min_size=1))
    panel = st.builds(DeliverableMarks, *[st.fractions(0, 100, max_denominator=2)] * 4)
    deliverables = tuple(
        written(name, *draw(st.lists(panel, min_size=3, max_size=3)))
        if draw(st.booleans())
        else Deliverable(name, draw(st.sampled_from([Delivery.MISSING, Delivery.PLACEHOLDER])))
        for name in sorted(names)
    )
    return Submission(
        name=draw(st.sampled_from(["a", "b"])),
        static=draw(st.builds(StaticTests, counts, counts, counts)),
        adversarial=tuple(draw(ADVERSARIAL)),
        code_quality=quality(*draw(marks)),
        deliverables=deliverables,
        security=SecurityScan("s", "r", *draw(st.lists(st.integers(0, 5), min_size=4, max_size=4))),
        stability=draw(st.builds(Running, st.booleans(), st.booleans(), st.booleans())),
        iterations=draw(st.one_of(st.none(), st.integers(1, 4))),
        time_ms=draw(st.one_of(st.none(), st.integers(0, 3))),
    )


@given(submissions(), st.randoms(use_true_random=False))
def test_order_and_recomputation(one: Submission, chance: Any) -> None:
    """Families 1 and 15: the order of tests, deliverables and judges changes nothing, the digest included;
    the data is canonical JSON without floats."""
    tests, asked = list(one.adversarial or ()), list(one.deliverables or ())
    judges = list((one.code_quality or {}).items())
    for items in (tests, asked, judges):
        chance.shuffle(items)
    again = replace(one, adversarial=tuple(tests), deliverables=tuple(asked), code_quality=dict(judges))
    made, other = score_submission(one), score_submission(again)
    assert made == other and made.as_data() == other.as_data()
    assert canonical.decode_strict(canonical.encode(made.as_data())) == made.as_data()


@given(submissions())
def test_the_score_is_on_its_scale_and_changes_the_digest(one: Submission) -> None:
    """S2-1: 0..100; family 15: another input has another digest."""
    made = score_submission(one)
    if made.raw is None:
        assert not one.adversarial
    else:
        assert 0 <= made.raw <= 100
    other = replace(one, security=SecurityScan("s", "r2"))
    assert score_submission(other).inputs_digest != made.inputs_digest


@given(submissions(), st.data())
def test_a_passing_test_never_lowers_the_score(one: Submission, data: st.DataObject) -> None:
    """Family 4: static and adversarial, fail to pass; security, fewer issues. Judges are not asserted."""
    base = score_submission(one).raw
    better = []
    assert one.static is not None and one.security is not None and one.adversarial is not None
    edge = one.static.edge
    if edge.passed < edge.total:
        better.append(replace(one, static=replace(one.static, edge=SuiteCount(edge.passed + 1, edge.total))))
    failing = [n for n, test in enumerate(one.adversarial) if not test.passed]
    if failing:
        at = data.draw(st.sampled_from(failing))
        fixed_ = replace(one.adversarial[at], passed=True)
        better.append(replace(one, adversarial=(*one.adversarial[:at], fixed_, *one.adversarial[at + 1 :])))
    for severity in Severity:
        found = one.security.issues(severity)
        if found:
            fewer: dict[str, Any] = {severity.value: found - 1}
            better.append(replace(one, security=replace(one.security, **fewer)))
    for change in better:
        after = score_submission(change).raw
        assert base is None or (after is not None and after >= base)


@given(st.dictionaries(st.sampled_from(ComponentName), st.fractions(0, 100), min_size=6, max_size=6))
def test_final_score_is_linear_in_its_components(values: dict[ComponentName, Fraction]) -> None:
    """S2-1: halving every component halves the score; it lies between the worst and the best component."""
    whole = final_score(dict(values))
    half = final_score({name: value / 2 for name, value in values.items()})
    assert whole is not None and half == whole / 2
    assert min(values.values()) <= whole <= max(values.values())


def ranked(*rows: tuple[str, object, int | None, int | None]) -> dict[str, int | None]:
    """Ranks of submissions whose raw score is put in directly."""
    base = score_submission(EXAMPLE)
    return rank(
        [
            replace(base, name=name, raw=None if raw is None else exact(raw), iterations=used, time_ms=ms)
            for name, raw, used, ms in rows
        ]
    )


def test_order_of_submissions() -> None:
    """S2-28: published score, then iterations, then time, then a shared rank; no score, no rank."""
    assert ranked(("A", 85, 4, 1), ("B", 85, 1, 9), ("C", 85, 4, 2)) == {"A": 2, "B": 1, "C": 3}
    assert ranked(("A", "85.4", 1, 9), ("B", "84.5", 1, 9), ("C", 3, 1, 1)) == {"A": 1, "B": 1, "C": 3}
    assert ranked(("A", 85, None, 1), ("B", 85, 9, None), ("C", 85, 9, 7)) == {"A": 3, "B": 2, "C": 1}
    assert ranked(("A", None, 1, 1), ("B", 1, 9, 9)) == {"A": None, "B": 1}
    with pytest.raises(MalformedInputError) as caught:
        ranked(("A", 1, 1, 1), ("A", 2, 1, 1))
    assert caught.value.code == "duplicate-submission"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: SuiteCount(3, 2), "pass-count"),
        (lambda: SuiteCount(-1, 2), "number"),
        (lambda: SuiteCount(True, 2), "number"),
        (lambda: SuiteCount(raw(1.0), 2), "number"),
        (lambda: AdversarialTest(raw("critical"), True), "adversarial-test"),
        (lambda: AdversarialTest(Severity.LOW, raw(1)), "adversarial-test"),
        (lambda: QualityMarks(Fraction(101), Fraction(0), Fraction(0), Fraction(0)), "range"),
        (lambda: QualityMarks(raw(50), Fraction(0), Fraction(0), Fraction(0)), "number"),
        (lambda: DeliverableMarks(Fraction(-1), Fraction(0), Fraction(0), Fraction(0)), "range"),
        (lambda: DeliverableMarks(raw(float("nan")), Fraction(0), Fraction(0), Fraction(0)), "number"),
        (lambda: SecurityScan("s", "r", critical=-1), "number"),
        (lambda: SecurityScan("s", "r", low=True), "number"),
        (lambda: SecurityScan("", "r"), "provenance"),
        (lambda: SecurityScan("s", ""), "provenance"),
        (lambda: Running(warnings=raw(1)), "flag"),
        (lambda: Deliverable("adr", Delivery.WRITTEN), "judge-count"),
        (lambda: replace(EXAMPLE, code_quality=quality(1, 2)), "judge-count"),
        (lambda: replace(EXAMPLE, iterations=0), "number"),
        (lambda: replace(EXAMPLE, time_ms=-1), "number"),
        (lambda: replace(EXAMPLE, iterations=3), "trajectory-length"),
        (lambda: replace(EXAMPLE, deliverables=TWICE), "duplicate-deliverable"),
        (lambda: final_score(dict.fromkeys(ComponentName, Fraction(101))), "range"),
    ],
)
def test_impossible_input_is_refused(make: Any, code: str) -> None:
    """Family 10: with a code, never coerced."""
    with pytest.raises(MalformedInputError) as caught:
        make()
    assert caught.value.code == code


def test_a_panel_of_a_deliverable_that_is_not_there_is_refused() -> None:
    """S2-22: a missing text cannot have been judged."""
    panel = {f"judge-{n}": EXAMPLE_MARKS for n in range(3)}
    with pytest.raises(MalformedInputError) as caught:
        Deliverable("adr", Delivery.PLACEHOLDER, panel)
    assert caught.value.code == "judge-count"


def test_component_functions_are_exact() -> None:
    """G-1: fractions in, fractions out."""
    assert static_score(StaticTests(other=SuiteCount(1, 3))) == Fraction(100, 3)
    tests = [AdversarialTest(Severity.LOW, True), AdversarialTest(Severity.HIGH, False)]
    assert adversarial_score(tests) == 20
    assert security_score(SecurityScan("s", "r", 4, 0, 0, 1)) == 0


def test_a_verified_try_states_its_checks_and_nothing_more() -> None:
    """From a try: static where checks were counted, no final score; what did not finish is no submission."""
    plan = plan_of({"t1": 4})
    checked = attest(plan, ("t1", 1), FAIL, checks_passed=3, checks_total=4)
    made = submission_of(checked, View.PUBLIC)
    assert made is not None and made.static == StaticTests(other=SuiteCount(3, 4))
    scored = score_submission(made)
    assert scored.component(ComponentName.STATIC).value == 75 and scored.raw is None
    unchecked = submission_of(attest(plan, ("t1", 2), PASS), View.PUBLIC)
    assert unchecked is not None and unchecked.static is None
    for spec in (TIMEOUT, FAULT, replace(PASS, public=False)):
        assert submission_of(attest(plan, ("t1", 3), spec), View.PUBLIC) is None


def test_no_funder_and_no_clock_by_signature() -> None:
    """Family 12: a submission names nobody who asked or paid."""
    assert list(inspect.signature(score_submission).parameters) == ["submission"]
    assert not {"requested_by", "funded_by", "organisation", "display_name"} & set(vars(EXAMPLE))
