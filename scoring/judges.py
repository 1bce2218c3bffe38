"""The three-judge rule of `six-component/1` (S2-15 .. S2-20, reference section 2.1).

Agreement within 15 points takes the median; exactly one outlier is dropped and the other two are averaged;
everything else is ambiguous: mean minus 10, at least 0, flagged for a human. The rule is NOT monotone:
(70, 85, 85) gives 85, (70, 85, 85.01) gives 70.003, (69.99, 85, 85.01) gives 85.005. That is the
document's rule and is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.domain import mark
from scoring.errors import MalformedInputError

JUDGES: Final = 3
AGREEMENT: Final = Fraction(15)
"""Points: a range up to here is agreement, a distance above it makes an outlier."""
AMBIGUITY_PENALTY: Final = Fraction(10)
"""Points taken from the mean when the judges cannot agree."""


class Branch(StrEnum):
    """Which part of the rule decided."""

    AGREE_MEDIAN = "agree_median"
    DROP_HIGH = "drop_high"
    DROP_LOW = "drop_low"
    AMBIGUOUS = "ambiguous_mean_minus_10"


@dataclass(frozen=True)
class Panel:
    """Three judges' scores in ascending order and what they come to (0..100, exact)."""

    scores: tuple[Fraction, ...]
    value: Fraction
    branch: Branch

    @property
    def flag(self) -> bool:
        """Whether a human must review it (S2-17)."""
        return self.branch is Branch.AMBIGUOUS

    @property
    def arithmetic(self) -> str:
        """The sum as text."""
        low, middle, high = self.scores
        listed = ", ".join(str(score) for score in self.scores)
        if self.branch is Branch.AGREE_MEDIAN:
            return f"judges {listed}: within {AGREEMENT}, median = {self.value}"
        if self.branch is Branch.DROP_HIGH:
            return f"judges {listed}: {high} dropped, ({low} + {middle}) / 2 = {self.value}"
        if self.branch is Branch.DROP_LOW:
            return f"judges {listed}: {low} dropped, ({middle} + {high}) / 2 = {self.value}"
        return (
            f"judges {listed}: cannot agree, max(0, ({low} + {middle} + {high}) / 3 - {AMBIGUITY_PENALTY}) = "
            f"{self.value}, flagged for human review"
        )


def aggregate(scores: Sequence[Fraction]) -> Panel:
    """The component value of exactly three judges' scores 0..100; the order of the judges has no effect.

    Raises `MalformedInputError`: `judge-count` (S2-20: other than three), `number`, `range`.
    """
    if len(scores) != JUDGES:
        raise MalformedInputError("judge-count", f"{len(scores)} judges, not {JUDGES}")
    ordered = tuple(sorted(mark("a judge's score", score) for score in scores))
    low, middle, high = ordered
    if high - low <= AGREEMENT:
        return Panel(ordered, middle, Branch.AGREE_MEDIAN)
    low_apart, high_apart = middle - low > AGREEMENT, high - middle > AGREEMENT
    if high_apart and not low_apart:
        return Panel(ordered, (low + middle) / 2, Branch.DROP_HIGH)
    if low_apart and not high_apart:
        return Panel(ordered, (middle + high) / 2, Branch.DROP_LOW)
    ambiguous = max(Fraction(0), sum(ordered, Fraction(0)) / JUDGES - AMBIGUITY_PENALTY)
    return Panel(ordered, ambiguous, Branch.AMBIGUOUS)
