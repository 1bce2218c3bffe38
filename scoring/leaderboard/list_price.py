"""Model calls at the official list price (S1-26 .. S1-28)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from scoring.domain import count, not_negative
from scoring.errors import MalformedInputError

PRICED_TOKENS: Final = 10**6
"""Official prices are stated in USD per million tokens."""


@dataclass(frozen=True)
class TokenUse:
    """Tokens of the evaluated entrant's own model calls; `input` contains `cached` (the cache hits)."""

    input: int
    cached: int
    output: int

    def __post_init__(self) -> None:
        for name in ("input", "cached", "output"):
            count(f"{name} tokens", getattr(self, name))
        if self.cached > self.input:
            raise MalformedInputError(
                "cached-above-input", f"{self.cached} cached of {self.input} input tokens"
            )


@dataclass(frozen=True)
class ListPrice:
    """One model's standard price, exact USD per million tokens. No long-context or off-peak price exists
    here: every entrant is priced by the same table (S1-28)."""

    input: Fraction
    cached: Fraction
    output: Fraction

    def __post_init__(self) -> None:
        for name in ("input", "cached", "output"):
            not_negative(f"{name} price", getattr(self, name))


def list_price_usd(use: TokenUse, price: ListPrice) -> Fraction:
    """Exact USD: uncached input, cached input and output, each at its own price (S1-27)."""
    uncached = use.input - use.cached
    total = uncached * price.input + use.cached * price.cached + use.output * price.output
    return total / PRICED_TOKENS
