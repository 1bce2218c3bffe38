"""The smallest difference that a pair of results can show, computed from the pair itself (ST-5).

"A few points" understates it: at 20 tasks x 3 tries two equal agents differ by 8 to 12 points by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, sqrt

from scoring import quantiles
from scoring.domain import count, pair
from scoring.errors import MalformedInputError
from scoring.noise import ALPHA, POWER, SIGMA2, rerun_variance
from scoring.sign_flip import fewest_differences

Counts = tuple[int, int]
"""(passes, counted tries) of one task."""


@dataclass(frozen=True)
class Detectable:
    """`share` is the smallest true difference found with 80% power at 5%, as a share, at most 1; the rest
    is what it was made from: exact variances of the mean difference, and the least step of the test."""

    share: float
    spread: Fraction
    rerun: Fraction
    least_step: Fraction


def detectable_from_pair(a: Sequence[Counts], b: Sequence[Counts]) -> Detectable | None:
    """From the counts of both results on the same tasks, in the same order; None on fewer than six tasks,
    where the exact test can never reach 5%.

    max((z(1-alpha/2) + z(power)) x sqrt(max(spread, rerun)), least step), where spread is the clustered
    variance of the mean task difference, rerun the sum of both re-run variances, and the least step six
    tasks that differ by one try. Raises `MalformedInputError`: `pass-count`, `number`, `too-few-tasks`.
    """
    tasks = len(a)
    if tasks != len(b) or not tasks:
        raise MalformedInputError("too-few-tasks", f"{tasks} and {len(b)} tasks")
    for passes, tries in (*a, *b):
        pair("tries", passes, count("tries", tries, least=1))
    if tasks < fewest_differences(ALPHA):
        return None
    differences = [Fraction(*x) - Fraction(*y) for x, y in zip(a, b, strict=True)]
    spread = variance_of_mean(differences)
    rerun = _rerun(a) + _rerun(b)
    both = quantiles.normal(float(1 - ALPHA / 2)) + quantiles.normal(float(POWER))
    least = _least_step(a, b)
    return Detectable(min(1.0, max(both * sqrt(max(spread, rerun)), float(least))), spread, rerun, least)


def variance_of_mean(values: Sequence[Fraction]) -> Fraction:
    """sum((x - m)^2) / (G - 1) / G, exactly, for at least two values."""
    size = len(values)
    if size < 2:
        raise MalformedInputError("too-few-tasks", "a spread needs at least two tasks")
    total = sum(values, Fraction(0))
    squares = sum((value * value for value in values), Fraction(0))
    return (squares - total * total / size) / (size - 1) / size


def _rerun(counts: Sequence[Counts]) -> Fraction:
    """Variance of one result's mean when the same tasks are tried again."""
    if all(tries > 1 for _, tries in counts):
        return rerun_variance(counts)
    return sum((SIGMA2 / tries for _, tries in counts), Fraction(0)) / len(counts) ** 2


def _least_step(a: Sequence[Counts], b: Sequence[Counts]) -> Fraction:
    """The smallest mean difference that can reach 5%: the six smallest single steps over all tasks."""
    steps = sorted(Fraction(1, lcm(n, m)) for (_, n), (_, m) in zip(a, b, strict=True))
    return sum(steps[: fewest_differences(ALPHA)], Fraction(0)) / len(steps)
