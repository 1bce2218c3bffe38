"""Exact mean and median of a list of figures; of nothing there is neither (G-5)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from scoring.errors import MalformedInputError


def mean_of(values: Sequence[Fraction]) -> Fraction:
    """Sum / count, exactly; raises `MalformedInputError("nothing-to-average")` for none."""
    if not values:
        raise MalformedInputError("nothing-to-average", "a mean needs at least one value")
    # Integers over one denominator: adding fractions one by one would reduce each partial sum.
    bottom = lcm(*{value.denominator for value in values})
    total = sum(value.numerator * (bottom // value.denominator) for value in values)
    return Fraction(total, bottom * len(values))


def median_of(values: Sequence[Fraction]) -> Fraction:
    """The middle value, of an even count the mean of the middle two (S0-23).

    Raises `MalformedInputError("nothing-to-average")` for none.
    """
    if not values:
        raise MalformedInputError("nothing-to-average", "a median needs at least one value")
    ordered, half = sorted(values), len(values) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
