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
    """Tokens of the evaluated entrant's own model calls; `input_tokens` contain `cached_tokens`, the hits."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        for name in ("input_tokens", "cached_tokens", "output_tokens"):
            count(name, getattr(self, name))
        if self.cached_tokens > self.input_tokens:
            raise MalformedInputError(
                "cached-above-input", f"{self.cached_tokens} cached of {self.input_tokens} input tokens"
            )


@dataclass(frozen=True)
class ListPrice:
    """One model's standard price, exact USD per million tokens.

    No long-context or off-peak price exists here: every entrant is priced by the same table (S1-28).
    """

    input_usd: Fraction
    cached_usd: Fraction
    output_usd: Fraction

    def __post_init__(self) -> None:
        for name in ("input_usd", "cached_usd", "output_usd"):
            not_negative(name, getattr(self, name))


def list_price_usd(use: TokenUse, price: ListPrice) -> Fraction:
    """Exact USD: uncached input, cached input and output, each at its own price (S1-27)."""
    uncached = use.input_tokens - use.cached_tokens
    total = uncached * price.input_usd + use.cached_tokens * price.cached_usd
    return (total + use.output_tokens * price.output_usd) / PRICED_TOKENS
