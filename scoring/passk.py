"""pass^k: the chance that all k of k tries on a task pass (S0-27..31, S3-29, ST-6)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import comb

from scoring.errors import MalformedInputError


def pass_hat_k(passes: int, tries: int, k: int) -> Fraction:
    """C(c,k)/C(n,k) for `passes` c of `tries` n: the share of k-subsets of the tries that all passed.

    Unbiased for p^k when n >= k (ST-6). Fewer than k passes give exactly 0, also when n < k, where the
    fraction itself is undefined (S0-28, S0-31). Raises `MalformedInputError("pass-count")` unless
    0 <= c <= n, n >= 1 and k >= 1.
    """
    if k < 1 or tries < 1 or not 0 <= passes <= tries:
        raise MalformedInputError("pass-count", f"{passes} passes of {tries} tries, k={k}")
    if passes < k:
        return Fraction(0)
    return Fraction(comb(passes, k), comb(tries, k))


def mean(values: Iterable[tuple[Fraction, int]]) -> Fraction:
    """The exact mean of values given with how often each occurs.

    Raises `MalformedInputError("nothing-to-average")` for none: a mean of nothing is missing, not 0 (G-5).
    """
    total, count = Fraction(0), 0
    for value, times in values:
        total += value * times
        count += times
    if not count:
        raise MalformedInputError("nothing-to-average", "a mean needs at least one value")
    return total / count
