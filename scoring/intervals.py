"""Intervals for shares (ST-1 .. ST-3): plain proportions, task-clustered t, and the card's interval.

Estimates and variances stay exact fractions until the last step; only the quantiles and the square root
are floats. All bounds are shares in 0..1. The source of the methods and of their measured coverage is
section 5 of the scoring reference (Wilson on an effective n covers best at 20 tasks x 3 tries).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Final

from scoring import quantiles
from scoring.errors import MalformedInputError

LEVEL: Final = Fraction(95, 100)
"""Two-sided confidence level of every interval that is published."""


@dataclass(frozen=True)
class Interval:
    """Two bounds of a share, 0 <= low <= high <= 1."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance between the bounds (the interval need not be symmetric)."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class ClusteredMean:
    """Mean of task means with its task-clustered variance (ST-2): `variance` is that of the mean."""

    mean: Fraction
    variance: Fraction
    tasks: int

    @property
    def degrees(self) -> int:
        """Degrees of freedom, G - 1."""
        return self.tasks - 1

    @property
    def standard_error(self) -> float:
        """Square root of the variance."""
        return sqrt(self.variance)


@dataclass(frozen=True)
class EffectiveWilson:
    """The card's interval with the quantities it was made from (ST-3)."""

    mean: Fraction
    n_effective: Fraction
    n_adjusted: float
    interval: Interval


def normal_quantile(level: Fraction = LEVEL) -> float:
    """Two-sided normal quantile, 1.96 for 95%."""
    return quantiles.normal(_upper(level))


def t_quantile(degrees: int, level: Fraction = LEVEL) -> float:
    """Two-sided Student t quantile for `degrees` >= 1."""
    if degrees < 1:
        raise MalformedInputError("too-few-tasks", "a t quantile needs at least two tasks")
    return quantiles.student(degrees, _upper(level))


def wilson(share: Fraction, n: float, level: Fraction = LEVEL) -> Interval:
    """Wilson score interval of `share` observed on `n` > 0 (also fractional) trials (ST-1)."""
    if not 0 <= share <= 1 or not n > 0:
        raise MalformedInputError("proportion", f"share {share} of {n}")
    p, z = float(share), normal_quantile(level)
    squeeze = 1 + z * z / n
    middle = (p + z * z / (2 * n)) / squeeze
    reach = z / squeeze * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return _around(share, middle - reach, middle + reach)


def wilson_counts(successes: int, n: int, level: Fraction = LEVEL) -> Interval:
    """Wilson interval of `successes` in `n` independent trials (ST-1)."""
    return wilson(_share(successes, n), n, level)


def jeffreys(successes: int, n: int, level: Fraction = LEVEL) -> Interval:
    """Jeffreys interval (Beta(1/2, 1/2) prior, equal tails, closed at 0 of n and n of n) (ST-1)."""
    share = _share(successes, n)
    upper = _upper(level)
    a, b = successes + 0.5, n - successes + 0.5
    low = 0.0 if successes == 0 else quantiles.beta(a, b, 1 - upper)
    high = 1.0 if successes == n else quantiles.beta(a, b, upper)
    return _around(share, low, high)


def clustered_mean(task_means: Sequence[Fraction]) -> ClusteredMean:
    """Mean of task means and the variance of that mean, sum((x-m)^2)/(G-1)/G, exactly (ST-2).

    Raises `MalformedInputError("too-few-tasks")` for fewer than two tasks: one cluster has no spread.
    """
    tasks = len(task_means)
    if tasks < 2:
        raise MalformedInputError("too-few-tasks", "a clustered interval needs at least two tasks")
    groups = Counter(task_means).items()
    if any(not 0 <= value <= 1 for value, _ in groups):
        raise MalformedInputError("proportion", "a task mean is outside 0..1")
    total = sum((value * times for value, times in groups), Fraction(0))
    squares = sum((value * value * times for value, times in groups), Fraction(0))
    mean = total / tasks
    return ClusteredMean(mean, (squares - total * mean) / (tasks - 1) / tasks, tasks)


def clustered_t(task_means: Sequence[Fraction], level: Fraction = LEVEL) -> Interval:
    """mean +- t(G-1) x standard error over tasks, clipped to 0..1 (ST-2). Not used on the card: it covers
    74% instead of 95% near the ends."""
    estimate = clustered_mean(task_means)
    reach = t_quantile(estimate.degrees, level) * estimate.standard_error
    middle = float(estimate.mean)
    return _around(estimate.mean, middle - reach, middle + reach)


def effective_wilson(task_means: Sequence[Fraction], tries: int, level: Fraction = LEVEL) -> EffectiveWilson:
    """The card's interval (ST-3): Wilson on n_eff = clip(m(1-m)/se^2, G, N), times (z / t(G-1))^2.

    `tries` is N, the counted tries over all tasks together (G x K when every task has K). n_eff = G when
    the task means do not differ. Twenty of twenty tasks all passing give 82.0..100, not 100..100.
    """
    estimate = clustered_mean(task_means)
    tasks = estimate.tasks
    if tries < tasks:
        raise MalformedInputError("pass-count", f"{tries} tries on {tasks} tasks")
    spread = estimate.mean * (1 - estimate.mean)
    if estimate.variance == 0:
        n_effective = Fraction(tasks)
    else:
        n_effective = min(max(spread / estimate.variance, Fraction(tasks)), Fraction(tries))
    shrink = normal_quantile(level) / t_quantile(estimate.degrees, level)
    n_adjusted = float(n_effective) * shrink * shrink
    return EffectiveWilson(estimate.mean, n_effective, n_adjusted, wilson(estimate.mean, n_adjusted, level))


def _upper(level: Fraction) -> float:
    if not 0 < level < 1:
        raise MalformedInputError("level", f"confidence level {level}")
    return float((1 + level) / 2)


def _share(successes: int, n: int) -> Fraction:
    if n < 1 or not 0 <= successes <= n:
        raise MalformedInputError("pass-count", f"{successes} successes of {n}")
    return Fraction(successes, n)


def _around(share: Fraction, low: float, high: float) -> Interval:
    """Clip to 0..1 and, against the last bit of float noise, keep the estimate inside; an estimate of
    exactly 0 or 1 is its own bound."""
    p = float(share)
    return Interval(
        0.0 if share == 0 else max(0.0, min(low, p)),
        1.0 if share == 1 else min(1.0, max(high, p)),
    )
