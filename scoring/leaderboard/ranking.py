"""Ranks of a column: competition ranking 1, 1, 3 (S1-21, S1-22, S1-25, S1-30)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from scoring.numbers import fixed

RANK_DECIMALS: Final = 3
"""Scores that agree in so many decimals share a rank (S1-22)."""


def score_ranks(scores: Mapping[str, Fraction]) -> dict[str, int]:
    """Rank of each score, highest first; equal after rounding to 3 decimals shares the rank (1, 1, 3)."""
    return _ranks({name: -Fraction(fixed(score, RANK_DECIMALS)) for name, score in scores.items()})


def column_ranks(means: Mapping[str, Fraction | None]) -> dict[str, int | None]:
    """Rank of each exact mean, lowest first (time, cost); None where the mean is missing."""
    ranks = _ranks({name: mean for name, mean in means.items() if mean is not None})
    return {name: ranks.get(name) for name in means}


def _ranks(keys: Mapping[str, Fraction]) -> dict[str, int]:
    """1 + how many keys are smaller."""
    first: dict[Fraction, int] = {}
    for place, key in enumerate(sorted(keys.values()), start=1):
        first.setdefault(key, place)
    return {name: first[key] for name, key in keys.items()}
