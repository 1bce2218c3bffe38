"""The comparisons as the solver sees them: sums over opponents, as a full table or as a sparse one.

With strengths x = exp(t) and N = W + W^T, everything that the likelihood needs is made of N/(x_i + x_j): one
division per pair instead of an exponential.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from scoring.leaderboard.half_wins import DENSE_ENTRANTS, DENSE_SHARE, Ints

Floats = npt.NDArray[np.float64]

DENSE_ALWAYS: Final = 512
"""Up to so many entrants the full table is the faster one, however few pairs met."""
BLOCK: Final = 1 << 15
"""Pairs handled at a time: 256 KiB, so that a block stays in the processor's cache."""


class Pairs(Protocol):
    """Sums over opponents. `wins` and `games` are the row sums of W and of N."""

    wins: Floats
    games: Floats

    def linearise(self, strengths: Floats) -> Floats:
        """sum_j N_ij/(x_i+x_j) for each i; keeps N_ij/(x_i+x_j)^2 for `curvature`."""
        ...

    def curvature(self, vector: Floats) -> Floats:
        """sum_j N_ij/(x_i+x_j)^2 v_j at the strengths that were linearised last."""
        ...

    def log_sum(self, strengths: Floats) -> float:
        """sum over pairs of N_ij log(x_i+x_j)."""
        ...


class DensePairs:
    """Every pair has a cell; worked through in blocks of rows."""

    def __init__(self, win_weights: Floats) -> None:
        """`win_weights` is W (n, n) with an empty diagonal."""
        size = len(win_weights)
        self._ones = np.ones(size)
        self._games = win_weights + win_weights.T
        self.wins = win_weights @ self._ones
        self.games = self._games @ self._ones
        self._curvature = np.empty((size, size))
        self._rows = max(1, min(size, BLOCK // max(1, size)))
        self._sums = np.empty((self._rows, size))
        self._shares = np.empty((self._rows, size))

    def linearise(self, strengths: Floats) -> Floats:
        """See `Pairs`."""
        size = len(strengths)
        total = np.empty(size)
        for start in range(0, size, self._rows):
            stop = min(size, start + self._rows)
            sums, shares = self._sums[: stop - start], self._shares[: stop - start]
            np.add(strengths[start:stop, None], strengths, out=sums)
            np.divide(self._games[start:stop], sums, out=shares)
            np.dot(shares, self._ones, out=total[start:stop])
            np.divide(shares, sums, out=self._curvature[start:stop])
        return total

    def curvature(self, vector: Floats) -> Floats:
        """See `Pairs`."""
        product: Floats = self._curvature @ vector
        return product

    def log_sum(self, strengths: Floats) -> float:
        """See `Pairs`."""
        total = 0.0
        for start in range(0, len(strengths), self._rows):
            block = strengths[start : start + self._rows, None] + strengths
            total += float(np.sum(self._games[start : start + self._rows] * np.log(block)))
        return total / 2


class SparsePairs:
    """Only pairs that met have a cell (scipy.sparse)."""

    def __init__(self, size: int, winners: Ints, losers: Ints, weights: Floats) -> None:
        from scipy.sparse import csr_array

        both = csr_array(
            (
                np.concatenate([weights, weights]),
                (np.concatenate([winners, losers]), np.concatenate([losers, winners])),
            ),
            shape=(size, size),
        )
        both.sum_duplicates()
        self._cells = both
        self._row = np.repeat(np.arange(size), np.diff(both.indptr))
        self._met: Floats = both.data.copy()
        self._size = size
        self.wins = _sums(winners, weights, size)
        self.games = self._row_sums(self._met)

    def linearise(self, strengths: Floats) -> Floats:
        """See `Pairs`."""
        sums = strengths[self._row] + strengths[self._cells.indices]
        shares = self._met / sums
        self._cells.data = shares / sums
        return self._row_sums(shares)

    def curvature(self, vector: Floats) -> Floats:
        """See `Pairs`."""
        product: Floats = self._cells @ vector
        return product

    def log_sum(self, strengths: Floats) -> float:
        """See `Pairs`."""
        sums = strengths[self._row] + strengths[self._cells.indices]
        return float(self._met @ np.log(sums)) / 2

    def _row_sums(self, cells: Floats) -> Floats:
        return _sums(self._row, cells, self._size)


def pairs_of(size: int, winners: Ints, losers: Ints, weights: Floats) -> Pairs:
    """The operator of (winner, loser, weight) rows, which may repeat a pair: dense unless the table would be
    large and mostly empty."""
    if size > DENSE_ENTRANTS or (size > DENSE_ALWAYS and len(weights) * DENSE_SHARE < size * size):
        return SparsePairs(size, winners, losers, weights)
    table = _sums(winners * size + losers, weights, size * size)
    return DensePairs(table.reshape(size, size))


def _sums(keys: Ints, weights: Floats, size: int) -> Floats:
    """Sum of the weights of each key 0..size-1."""
    return np.bincount(keys, weights=weights, minlength=size).astype(np.float64, copy=False)
