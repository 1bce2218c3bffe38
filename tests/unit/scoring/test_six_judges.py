"""The three-judge rule (S2-15 .. S2-20) and the trajectory (S2-29)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.errors import MalformedInputError
from scoring.judges import Branch, aggregate
from scoring.numbers import exact
from scoring.trajectory import TrajectoryClass, trajectory

MARKS = st.fractions(0, 100, max_denominator=8)
PANELS = st.lists(MARKS, min_size=3, max_size=3)


def panel(*scores: object) -> Any:
    return aggregate([exact(score) for score in scores])


@pytest.mark.parametrize(
    ("scores", "value", "branch"),
    [
        ((72, 68, 76), 72, Branch.AGREE_MEDIAN),
        ((60, 70, 90), 65, Branch.DROP_HIGH),
        ((60, 80, 90), 85, Branch.DROP_LOW),
        ((40, 60, 90), Fraction(160, 3), Branch.AMBIGUOUS),
        ((50, 70, 90), 60, Branch.AMBIGUOUS),
        ((60, 70, 80), 60, Branch.AMBIGUOUS),
        ((0, 5, 16), 0, Branch.AMBIGUOUS),
        ((60, 60, 75), 60, Branch.AGREE_MEDIAN),
        ((60, 60, "75.001"), 60, Branch.DROP_HIGH),
    ],
)
def test_every_case_of_the_reference_table(scores: tuple[Any, ...], value: object, branch: Branch) -> None:
    """Reference 2.1: each row, and both sides of the threshold; only the ambiguous branch is flagged."""
    for order in permutations(scores):
        made = panel(*order)
        assert (made.value, made.branch, made.flag) == (value, branch, branch is Branch.AMBIGUOUS)


def test_the_rule_is_not_monotone() -> None:
    """Reference 2.1, kept on purpose: 0.01 points of one judge move the component by 15 points, both ways."""
    assert panel(70, 85, 85).value == 85
    assert panel(70, 85, "85.01").value == exact("240.01") / 3 - 10 < 71
    assert panel("69.99", 85, "85.01").value == exact("85.005")


@given(PANELS)
def test_exactly_one_judge_apart_from_both_others_is_dropped(scores: list[Fraction]) -> None:
    """S2-16, S2-18: the outlier branch is told by counting, without sorting."""
    made = aggregate(scores)
    apart = [
        all(abs(score - other) > 15 for place, other in enumerate(scores) if place != mine)
        for mine, score in enumerate(scores)
    ]
    dropped = made.branch in (Branch.DROP_HIGH, Branch.DROP_LOW)
    assert dropped == (sum(apart) == 1)
    if dropped:
        left = [score for score, out in zip(scores, apart, strict=True) if not out]
        assert made.value == sum(left, Fraction(0)) / 2
    elif made.branch is Branch.AMBIGUOUS:
        assert max(scores) - min(scores) > 15
        assert made.value == max(Fraction(0), sum(scores, Fraction(0)) / 3 - 10)
    else:
        assert max(scores) - min(scores) <= 15 and made.value == sorted(scores)[1]


@given(PANELS)
def test_the_value_stays_on_the_scale_and_below_the_best_judge(scores: list[Fraction]) -> None:
    """S2-20: 0..100 for any panel; nothing is invented above the highest mark."""
    assert 0 <= aggregate(scores).value <= max(scores)


@given(PANELS)
def test_the_order_of_the_judges_has_no_effect(scores: list[Fraction]) -> None:
    """Family 1."""
    assert len({aggregate(list(order)) for order in permutations(scores)}) == 1


@pytest.mark.parametrize("scores", [[], [Fraction(50)] * 2, [Fraction(50)] * 4])
def test_other_than_three_judges_are_refused(scores: list[Fraction]) -> None:
    """S2-20."""
    with pytest.raises(MalformedInputError) as caught:
        aggregate(scores)
    assert caught.value.code == "judge-count"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        *((bad, "number") for bad in (70, 70.0, True, "70", float("nan"))),
        *((bad, "range") for bad in (Fraction(-1), Fraction(1001, 10))),
    ],
)
def test_marks_out_of_their_domain_are_refused(bad: Any, code: str) -> None:
    """Family 10: never coerced."""
    for scores in ([bad, Fraction(1), Fraction(1)], [Fraction(1), Fraction(1), bad]):
        with pytest.raises(MalformedInputError) as caught:
            aggregate(scores)
        assert caught.value.code == code


def shape(*scores: object) -> TrajectoryClass:
    return trajectory([exact(score) for score in scores]).shape


@pytest.mark.parametrize(
    ("scores", "want"),
    [
        ((85,), TrajectoryClass.ONE_SHOT),
        ((60, 85), TrajectoryClass.MONOTONIC_IMPROVEMENT),
        ((60, 60), TrajectoryClass.FLAT),
        ((60, 60, 85), TrajectoryClass.LATE_JUMP),
        ((60, 60, 60, "60.1"), TrajectoryClass.LATE_JUMP),
        ((50, 60, 60, 85), TrajectoryClass.MONOTONIC_IMPROVEMENT),
        ((60, 85, 85), TrajectoryClass.MONOTONIC_IMPROVEMENT),
        ((60, 85, 72, 85), TrajectoryClass.REGRESSION),
        ((60, 60, 59, 85), TrajectoryClass.REGRESSION),
    ],
)
def test_trajectory_classes(scores: tuple[Any, ...], want: TrajectoryClass) -> None:
    """S2-29 and the chosen reading of the plateau."""
    assert shape(*scores) is want


@given(st.lists(MARKS, min_size=1, max_size=6))
def test_a_trajectory_is_a_regression_exactly_when_it_falls_somewhere(scores: list[Fraction]) -> None:
    """S2-29: any decrease decides; a constant never rises; the class does not depend on the level."""
    made = trajectory(scores)
    falls = any(b < a for a, b in pairwise(scores))
    assert (made.shape is TrajectoryClass.REGRESSION) == falls
    assert trajectory([score / 2 for score in scores]).shape is made.shape
    assert made.display.count("→") == len(scores) - 1


def test_an_empty_trajectory_is_refused() -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError, match="at least one"):
        trajectory([])
