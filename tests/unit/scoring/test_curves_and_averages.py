"""The published curves and lines (property family 13, S0-8 .. S0-10, S0-18 .. S0-21), and exact averages."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from statistics import mean, median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.averages import mean_of, median_of
from scoring.curves import COST_CURVE, COST_LINE, LATENCY_CURVE, LATENCY_LINE, STEPS_LINE, Curve, Line
from scoring.errors import MalformedInputError

CURVES = [LATENCY_CURVE, COST_CURVE]
LINES = [LATENCY_LINE, COST_LINE, STEPS_LINE]
SHAPES = [*CURVES, *LINES]
FIGURES = st.one_of(st.fractions(0, 20_000), st.fractions(0, Fraction(3, 10)), st.fractions(0, 20))
TINY = Fraction(1, 10**12)


def names(shape: Curve | Line) -> str:
    return f"{type(shape).__name__}-{shape.name}"


@pytest.mark.parametrize("shape", SHAPES, ids=names)
@given(FIGURES, FIGURES)
def test_points_never_rise_and_stay_in_bounds(shape: Curve | Line, one: Fraction, other: Fraction) -> None:
    """Family 13: a larger latency, cost or step count never earns more points."""
    low, high = sorted((one, other))
    assert 100 >= shape.points(low) >= shape.points(high) >= 0


@pytest.mark.parametrize("curve", CURVES, ids=names)
def test_anchors_are_met_exactly_and_without_a_jump(curve: Curve) -> None:
    """Family 13: exact at each anchor; the two sides of it differ by no more than the slope allows."""
    for figure, points in curve.anchors:
        assert curve.points(figure) == points
        for near in (figure - TINY, figure + TINY):
            assert abs(curve.points(near) - points) < Fraction(1, 10**6)


@pytest.mark.parametrize("curve", CURVES, ids=names)
def test_halfway_between_anchors_is_halfway_in_points(curve: Curve) -> None:
    """S0-8: linear between adjacent anchors, and only there."""
    for (left, high), (right, low) in zip(curve.anchors, curve.anchors[1:], strict=False):
        assert curve.points((left + right) / 2) == (high + low) / 2


def test_the_published_anchors() -> None:
    """S0-9, S0-10, written out once more by hand."""
    latency = {500: 100, 2000: 80, 5000: 50, 10000: 0}
    cost = {"0.001": 100, "0.010": 80, "0.050": 50, "0.100": 20, "0.200": 0}
    assert dict(LATENCY_CURVE.anchors) == {Fraction(ms): Fraction(points) for ms, points in latency.items()}
    assert dict(COST_CURVE.anchors) == {Fraction(usd): Fraction(points) for usd, points in cost.items()}


@pytest.mark.parametrize(
    ("line", "figure", "points"),
    [
        (LATENCY_LINE, "0", "100"),
        (LATENCY_LINE, "500", "100"),
        (LATENCY_LINE, "550", "99"),
        (LATENCY_LINE, "600", "98"),
        (LATENCY_LINE, "5500", "0"),
        (LATENCY_LINE, "5501", "0"),
        (COST_LINE, "0.01", "100"),
        (COST_LINE, "0.06", "50"),
        (COST_LINE, "0.11", "0"),
        (COST_LINE, "7", "0"),
        (STEPS_LINE, "1", "100"),
        (STEPS_LINE, "3", "100"),
        (STEPS_LINE, "3.5", "95"),
        (STEPS_LINE, "13", "0"),
        (STEPS_LINE, "14", "0"),
    ],
)
def test_lines_of_the_radar(line: Line, figure: str, points: str) -> None:
    """S0-18 (continuous, not stepped), S0-20, S0-21."""
    assert line.points(Fraction(figure)) == Fraction(points)


@pytest.mark.parametrize("shape", SHAPES, ids=names)
@pytest.mark.parametrize("figure", [1, 1.0, True, None, "1", Decimal(1), float("nan")])
def test_only_exact_figures(shape: Curve | Line, figure: Any) -> None:
    """G-1: nothing is coerced."""
    with pytest.raises(MalformedInputError) as caught:
        shape.points(figure)
    assert caught.value.code == "number"


@pytest.mark.parametrize("shape", SHAPES, ids=names)
def test_negative_figures_are_refused(shape: Curve | Line) -> None:
    """Family 10: no run takes negative time, money or steps."""
    with pytest.raises(MalformedInputError) as caught:
        shape.points(Fraction(-1, 100))
    assert caught.value.code == "range"


@pytest.mark.parametrize(
    "anchors",
    [
        (),
        ((0, 100),),
        ((0, 100), (1, 50)),
        ((0, 90), (1, 0)),
        ((0, 100), (0, 0)),
        ((0, 100), (1, 100), (2, 0)),
        ((2, 100), (1, 0)),
    ],
)
def test_a_curve_that_does_not_fall_is_refused(anchors: tuple[tuple[int, int], ...]) -> None:
    """A curve goes from 100 to 0, figures rising, points falling."""
    with pytest.raises(MalformedInputError) as caught:
        Curve("x", "ms", tuple((Fraction(a), Fraction(b)) for a, b in anchors))
    assert caught.value.code == "anchors"


@pytest.mark.parametrize("shape", SHAPES, ids=names)
@given(FIGURES)
def test_the_arithmetic_states_the_points(shape: Curve | Line, figure: Fraction) -> None:
    """UI-3: each line ends in the exact points."""
    points = shape.points(figure)
    assert shape.arithmetic(figure).endswith(f"= {points.numerator}/{points.denominator}")


STEP = re.compile(r"(\S+) - (\S+) x \((\S+) - (\S+)\) / \((\S+) - (\S+)\) = (\S+)")


@pytest.mark.parametrize("curve", CURVES, ids=names)
@given(FIGURES)
def test_the_arithmetic_between_anchors_can_be_redone(curve: Curve, figure: Fraction) -> None:
    """UI-3: `high - drop x (figure - left) / (right - left) = points`, done again from the text."""
    text = curve.arithmetic(figure)
    if not text.startswith("at or "):
        found = STEP.fullmatch(text)
        assert found, text
        high, drop, stated, left, right, left_again, points = map(Fraction, found.groups())
        assert (stated, left) == (figure, left_again)
        assert high - drop * (figure - left) / (right - left) == points == curve.points(figure)


@given(st.lists(st.fractions(max_denominator=1000), min_size=1, max_size=20))
def test_averages_are_exact(values: list[Fraction]) -> None:
    """S0-8, S0-23: the standard library's mean and median of fractions agree."""
    assert mean_of(values) == mean(values)
    assert median_of(values) == median(values)


@pytest.mark.parametrize("average", [mean_of, median_of])
def test_nothing_has_no_average(average: Any) -> None:
    """G-5: missing is not 0."""
    with pytest.raises(MalformedInputError) as caught:
        average([])
    assert caught.value.code == "nothing-to-average"
