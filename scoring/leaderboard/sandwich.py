"""How sure a gap is: task-clustered sandwich intervals on score differences, Holm, rank ranges (section 5,
ST-7).

The inverse Hessian alone is no use here: weights 1/(n-1) are not information, and it covers every gap with
twice the width needed. What varies is which tasks were drawn, so tasks are the clusters, never comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from scipy.special import stdtr

from scoring.intervals import LEVEL, t_quantile
from scoring.leaderboard.elo import ELO_PER_NAT, REFERENCE_DRAWS
from scoring.leaderboard.operators import Floats
from scoring.leaderboard.pairs import Group

ALPHA: Final = 1 - LEVEL
"""Family-wise level of "surely above" over all pairs of a page."""
LEAST_TASKS: Final = 2
"""One compared task has no spread."""
MOST_ENTRANTS: Final = 2500
"""Above so many entrants the full covariance is not computed."""
DECIDED_OTHERWISE: Final = Fraction(1, 2)
"""Half a win: the smallest move of one task's decision, the least spread that a gap is given."""


@dataclass(frozen=True)
class GapFigures:
    """One difference of two scores in Elo, its 95% bounds, its p value and the Holm-adjusted one."""

    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float


class Differences:
    """All pairwise differences of a page, by entrant."""

    def __init__(self, entrants: Sequence[str], scores: Floats, errors: Floats, degrees: int) -> None:
        """`errors` (n, n) are standard errors of differences in Elo, symmetric, positive off the diagonal;
        scores and errors are in the order of `entrants`."""
        self._number = {name: place for place, name in enumerate(entrants)}
        self._scores = scores
        self._errors = errors
        self._reach = t_quantile(degrees)
        size = len(scores)
        upper = np.triu_indices(size, 1)
        gaps = scores[upper[0]] - scores[upper[1]]
        p_values = 2 * stdtr(degrees, -np.abs(gaps) / errors[upper])
        self._p = _square(size, upper, p_values)
        self._holm = _square(size, upper, holm(p_values))
        sure = self._holm <= float(ALPHA)
        np.fill_diagonal(sure, False)
        higher = scores[:, None] > scores
        self._surely_below = np.sum(sure & higher, axis=1)
        self._surely_above = np.sum(sure & higher.T, axis=1)

    def gap(self, first: str, second: str) -> GapFigures:
        """`first`'s score minus `second`'s."""
        a, b = self._number[first], self._number[second]
        difference = float(self._scores[a] - self._scores[b])
        reach = self._reach * float(self._errors[a, b])
        return GapFigures(
            difference=difference,
            low=difference - reach,
            high=difference + reach,
            p_value=float(self._p[a, b]),
            p_holm=float(self._holm[a, b]),
        )

    def rank_range(self, entrant: str) -> tuple[int, int]:
        """(best, worst): 1 + the number surely above, n - the number surely below."""
        place = self._number[entrant]
        return 1 + int(self._surely_above[place]), len(self._scores) - int(self._surely_below[place])

    def separated(self) -> int:
        """How many pairs are surely different."""
        return int(np.sum(self._surely_above))


def holm(p_values: Floats) -> Floats:
    """Holm-adjusted p values in the order given: running maximum of (m - k) p_(k), at most 1."""
    order = np.argsort(p_values, kind="stable")
    steps = np.maximum.accumulate((len(p_values) - np.arange(len(p_values))) * p_values[order])
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def differences(
    entrants: Sequence[str], scores: Floats, references: Floats, groups: Sequence[Group]
) -> Differences | None:
    """The gaps of a fitted page (Elo); None with fewer than two compared tasks or entrants, or above
    `MOST_ENTRANTS` entrants.

    Variance = H^-1 (T/(T-1) sum_tasks g g^T) H^-1 with H the Hessian including the reference draws and g a
    task's part of the gradient. The g are not centred: a record without any variety must not look certain.
    """
    tasks = sum(len(group.levels) for group in groups)
    if tasks < LEAST_TASKS or not 1 < len(scores) <= MOST_ENTRANTS:
        return None
    level = (scores - np.mean(scores)) / ELO_PER_NAT
    held = (references - np.mean(scores)) / ELO_PER_NAT
    hessian, meat = _clusters(level, groups)
    share = 1 / (1 + np.exp(held - level))
    hessian[np.diag_indices(len(level))] += REFERENCE_DRAWS * share * (1 - share)
    inverse = np.linalg.inv(hessian).astype(np.float64, copy=False)
    spread: Floats = inverse @ meat @ inverse * (tasks / (tasks - 1))
    least = float(DECIDED_OTHERWISE) * _contrast(inverse)
    errors = np.sqrt(np.maximum(_contrast(spread), least * least))
    return Differences(entrants, scores, ELO_PER_NAT * errors, tasks - 1)


def _clusters(level: Floats, groups: Sequence[Group]) -> tuple[Floats, Floats]:
    """The comparisons' Hessian, and the sum over tasks of the outer product of each task's gradient."""
    size = len(level)
    hessian, meat = np.zeros((size, size)), np.zeros((size, size))
    for group in groups:
        cells = np.ix_(group.who, group.who)
        at = level[group.who]
        chance = 1 / (1 + np.exp(at - at[:, None]))  # of the row's entrant against the column's
        weight = 1 / (len(at) - 1)
        bend = chance * (1 - chance) * (weight * len(group.levels))
        np.fill_diagonal(bend, 0.0)
        hessian[cells] += np.diag(bend.sum(axis=1)) - bend
        parts = weight * (_won(group) - (chance.sum(axis=1) - 0.5))  # without the entrant against itself
        meat[cells] += parts.T @ parts
    return hessian, meat


def _won(group: Group) -> Floats:
    """(tasks, n): comparisons won by each entrant on each task, draws as halves."""
    ordered = np.sort(group.levels, axis=1)
    won = np.empty(group.levels.shape)
    for row, (levels, line) in enumerate(zip(group.levels, ordered, strict=True)):
        below = np.searchsorted(line, levels, side="left")
        not_above = np.searchsorted(line, levels, side="right")
        won[row] = (below + not_above - 1) / 2
    return won


def _contrast(matrix: Floats) -> Floats:
    """c^T M c for every pair's contrast c = e_i - e_j."""
    diagonal = np.diag(matrix)
    result: Floats = np.maximum(diagonal[:, None] + diagonal - matrix - matrix.T, 0.0)
    return result


def _square(size: int, upper: tuple[np.ndarray, np.ndarray], values: Floats) -> Floats:
    """Pair values as a symmetric table, 1 on the diagonal."""
    table = np.ones((size, size))
    table[upper] = values
    table.T[upper] = values
    return table
