"""The optional composite of `rate-ai-agent/1` (S4-24 .. S4-27): off by default, shown beside its parts.

composite = sum(weight x component) / sum(weight of available components). Warning of the reference: with
no success the cost part is missing and renormalised away, so 0% success, 60 s, repeatable gives 0.288 and
1.67% success, costly, gives 0.2475. The formula is kept; monotonicity must not be assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from scoring.domain import not_negative, share
from scoring.numbers import DASH

WEIGHTS: Final = {
    "success": Fraction(6, 10),
    "cost": Fraction(15, 100),
    "latency": Fraction(1, 10),
    "repeatability": Fraction(15, 100),
}
COST_ZERO_USD: Final = Fraction(5)
"""Cost per success, in USD, at and above which the cost component is 0."""
LATENCY_ZERO_MS: Final = Fraction(20 * 60 * 1000)
"""Median time at and above which the latency component is 0 (20 minutes)."""


@dataclass(frozen=True)
class Composite:
    """The composite 0..1, exact, and its available components (None: missing)."""

    value: Fraction | None
    parts: tuple[tuple[str, Fraction | None], ...]

    @property
    def arithmetic(self) -> str:
        """The sum as text."""
        if self.value is None:
            return f"composite: {DASH} (success is unknown)"
        there = [(name, value) for name, value in self.parts if value is not None]
        terms = " + ".join(f"{WEIGHTS[name]} x {value}" for name, value in there)
        weights = " + ".join(str(WEIGHTS[name]) for name, _ in there)
        return f"composite = ({terms}) / ({weights}) = {self.value} ({', '.join(name for name, _ in there)})"


def composite(
    success: Fraction | None,
    cost_per_success_usd: Fraction | None,
    median_ms: Fraction | None,
    repeatability: Fraction | None,
) -> Composite:
    """The composite from a success rate 0..1, USD, ms and a repeatability 0..1; None is missing (S4-26).

    No success rate, no composite (S4-27). Raises `MalformedInputError`: `number`, `range`.
    """
    parts: dict[str, Fraction | None] = {
        "success": None if success is None else share("success", success),
        "cost": _falling("cost per success", cost_per_success_usd, COST_ZERO_USD),
        "latency": _falling("median time", median_ms, LATENCY_ZERO_MS),
        "repeatability": None if repeatability is None else share("repeatability", repeatability),
    }
    return Composite(weighted(parts, WEIGHTS) if success is not None else None, tuple(parts.items()))


def weighted(parts: dict[str, Fraction | None], weights: dict[str, Fraction]) -> Fraction | None:
    """Weighted mean over the available parts, weights renormalised; None when they weigh nothing."""
    there = {name: value for name, value in parts.items() if value is not None}
    total = sum((weights[name] for name in there), Fraction(0))
    if not total:
        return None
    return sum((weights[name] * value for name, value in there.items()), Fraction(0)) / total


def _falling(name: str, value: Fraction | None, zero: Fraction) -> Fraction | None:
    """1 - min(1, value / zero)."""
    return None if value is None else 1 - min(Fraction(1), not_negative(name, value) / zero)
