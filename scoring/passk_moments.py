"""Expectation and variance of the pass^k estimator under independent tries (ST-6), exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

from scoring.domain import count, share
from scoring.errors import MalformedInputError
from scoring.passk import pass_hat_k


@dataclass(frozen=True)
class PassKMoments:
    """Of C(c,k)/C(n,k) when c is binomial(n, p)."""

    expectation: Fraction
    variance: Fraction


def pass_k_moments(tries: int, k: int, rate: Fraction) -> PassKMoments:
    """Moments for `tries` n >= k and a true `rate` p 0..1, by summing over every c.

    The expectation is p^k: the estimator is unbiased. The variance within a task cannot be estimated from
    fewer than 2k tries, so with three tries only the spread between tasks is available (ST-6). Raises
    `MalformedInputError`: `number`, `range`, `pass-count` when n < k.
    """
    if count("tries", tries, least=1) < count("k", k, least=1):
        raise MalformedInputError("pass-count", f"pass^{k} of {tries} tries")
    p = share("rate", rate)
    first = second = Fraction(0)
    for passes in range(tries + 1):
        chance = comb(tries, passes) * p**passes * (1 - p) ** (tries - passes)
        value = pass_hat_k(passes, tries, k)
        first += chance * value
        second += chance * value * value
    return PassKMoments(first, second - first * first)
