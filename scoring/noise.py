"""How much a Pack Score moves by chance, and the smallest difference worth naming (ST-5).

Two figures answer two questions and are printed side by side: "the same tasks again" (only the tries are
drawn anew) and "another draw of tasks" (half of the card's interval, which covers both).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import Final

from scoring import quantiles
from scoring.errors import MalformedInputError
from scoring.intervals import LEVEL, normal_quantile

OMEGA2: Final = Fraction(1, 9)
"""Variance, over tasks, of the difference between two agents' true rates (Miller 2024's planning value)."""
SIGMA2: Final = Fraction(1, 6)
"""Variance of one try around its task's true rate (Miller 2024's planning value)."""
ALPHA: Final = Fraction(5, 100)
POWER: Final = Fraction(80, 100)


def rerun_variance(counts: Sequence[tuple[int, int]]) -> Fraction:
    """Variance of the mean of task shares when the same tasks are tried again, from (passes, tries).

    1/G^2 x sum of p(1-p)/(n-1), each term the unbiased variance of a task's share; every n must be >= 2.
    When no task split its tries the estimate would be 0, which n tries cannot show; then the smallest
    amount that one split task could have contributed (one try of n decided otherwise, 1/n^2 for the
    largest n) is used instead.
    """
    if not counts:
        raise MalformedInputError("too-few-tasks", "no task has a counted try")
    total = Fraction(0)
    for passes, tries in counts:
        if tries < 2 or not 0 <= passes <= tries:
            raise MalformedInputError("pass-count", f"{passes} passes of {tries} tries")
        share = Fraction(passes, tries)
        total += share * (1 - share) / (tries - 1)
    if total == 0:
        total = Fraction(1, max(tries for _, tries in counts) ** 2)
    return total / len(counts) ** 2


def rerun_half_width(counts: Sequence[tuple[int, int]], level: Fraction = LEVEL) -> float:
    """Half-width of the score around its own tasks' true mean, as a share: z x sqrt(`rerun_variance`)."""
    return normal_quantile(level) * sqrt(rerun_variance(counts))


def minimum_detectable_difference(
    tasks: int,
    tries: Fraction,
    *,
    omega2: Fraction = OMEGA2,
    sigma2_a: Fraction = SIGMA2,
    sigma2_b: Fraction = SIGMA2,
    alpha: Fraction = ALPHA,
    power: Fraction = POWER,
) -> float:
    """Smallest true difference of two agents that `tasks` x `tries` finds with the given power, as a share.

    (z(1-alpha/2) + z(power)) x sqrt((omega2 + (sigma2_a + sigma2_b)/K) / G), ST-5. With tasks of
    different size K is the harmonic mean of the tries, for which the formula is exact. May exceed 1.
    """
    if tasks < 1 or tries <= 0:
        raise MalformedInputError("too-few-tasks", f"{tasks} tasks x {tries} tries")
    if omega2 < 0 or sigma2_a < 0 or sigma2_b < 0:
        raise MalformedInputError("variance", "a variance is negative")
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise MalformedInputError("level", f"alpha {alpha}, power {power}")
    both = quantiles.normal(float(1 - alpha / 2)) + quantiles.normal(float(power))
    return both * sqrt((omega2 + (sigma2_a + sigma2_b) / tries) / tasks)


def harmonic_mean(tries: Sequence[int]) -> Fraction:
    """Harmonic mean of the counted tries per task, exactly."""
    if not tries or min(tries) < 1:
        raise MalformedInputError("too-few-tasks", "every task needs a counted try")
    return len(tries) / sum((Fraction(1, n) for n in tries), Fraction(0))
