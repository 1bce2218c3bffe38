"""The published curves from a figure to points: piecewise linear between anchors, and clamped lines.

All are exact, continuous and never rise; points are 0..100. A figure is averaged first and put on the curve
second (S0-8).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from scoring.errors import MalformedInputError
from scoring.numbers import POINTS, ratio

FULL: Final = Fraction(POINTS)


def _from_zero_up(what: str, value: object) -> Fraction:
    if not isinstance(value, Fraction):
        raise MalformedInputError("number", f"{what} is {value!r:.60}, not an exact number")
    if value < 0:
        raise MalformedInputError("range", f"{what} is negative: {value}")
    return value


@dataclass(frozen=True)
class Curve:
    """`anchors` are (figure, points), figures rising, points falling from 100 to 0; `unit` is the figure's.

    At or below the first anchor 100, at or above the last 0, linear between adjacent anchors (S0-8).
    """

    name: str
    unit: str
    anchors: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        falls = all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(self.anchors))
        if len(self.anchors) < 2 or not falls:
            raise MalformedInputError("anchors", f"the anchors of {self.name} do not fall")
        if self.anchors[0][1] != FULL or self.anchors[-1][1] != 0:
            raise MalformedInputError("anchors", f"the anchors of {self.name} do not go from 100 to 0")

    def points(self, figure: Fraction) -> Fraction:
        """Points 0..100 of `figure` >= 0; else `MalformedInputError`: `number` or `range`."""
        figure = _from_zero_up(self.name, figure)
        if figure <= self.anchors[0][0]:
            return FULL
        for (left, high), (right, low) in pairwise(self.anchors):
            if figure <= right:
                return high + (low - high) * (figure - left) / (right - left)
        return Fraction(0)

    def arithmetic(self, figure: Fraction) -> str:
        """How `points` comes about, to be redone by hand."""
        points = ratio(self.points(figure))
        first, last = self.anchors[0][0], self.anchors[-1][0]
        if figure <= first:
            return f"at or below {first} {self.unit} = {points}"
        if figure >= last:
            return f"at or above {last} {self.unit} = {points}"
        for (left, high), (right, low) in pairwise(self.anchors):
            if figure <= right:
                return f"{high} - {high - low} x ({figure} - {left}) / ({right} - {left}) = {points}"
        raise AssertionError("the anchors cover every figure")


@dataclass(frozen=True)
class Line:
    """100 up to `full_at`, then `per_unit` points less per unit, never below 0 (S0-18, S0-20, S0-21)."""

    name: str
    unit: str
    full_at: Fraction
    per_unit: Fraction

    def points(self, figure: Fraction) -> Fraction:
        """Points 0..100 of `figure` >= 0, continuous; else `MalformedInputError`: `number` or `range`."""
        over = _from_zero_up(self.name, figure) - self.full_at
        return min(FULL, max(Fraction(0), FULL - self.per_unit * over))

    def arithmetic(self, figure: Fraction) -> str:
        """How `points` comes about, to be redone by hand."""
        return (
            f"100 - {self.per_unit} x ({figure} - {self.full_at}) {self.unit}, within 0..100, "
            f"= {ratio(self.points(figure))}"
        )


def _anchors(*pairs: tuple[str, int]) -> tuple[tuple[Fraction, Fraction], ...]:
    return tuple((Fraction(figure), Fraction(points)) for figure, points in pairs)


LATENCY_CURVE: Final = Curve(
    "average latency", "ms", _anchors(("500", 100), ("2000", 80), ("5000", 50), ("10000", 0))
)
"""S0-9."""
COST_CURVE: Final = Curve(
    "average cost",
    "USD",
    _anchors(("0.001", 100), ("0.010", 80), ("0.050", 50), ("0.100", 20), ("0.200", 0)),
)
"""S0-10."""
LATENCY_LINE: Final = Line("median latency", "ms", Fraction(500), Fraction(2, 100))
"""S0-18: 500 ms is 100, 2 points less per further 100 ms, so 0 at 5,500 ms."""
COST_LINE: Final = Line("median cost", "USD", Fraction("0.01"), Fraction(1000))
"""S0-20: $0.01 is 100, 0 at $0.11."""
STEPS_LINE: Final = Line("median steps", "steps", Fraction(3), Fraction(10))
"""S0-21: 3 steps are 100, 10 points less per further step, so 0 at 13."""
