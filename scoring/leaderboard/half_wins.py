"""Whole-number counts per ordered pair of entrants, dense or sparse, whichever is smaller."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

DENSE_ENTRANTS: Final = 4096
"""Above so many entrants a full table of pairs is never allocated (134 MB at 8 bytes a pair)."""
DENSE_SHARE: Final = 8
"""A table becomes dense when one in so many of its pairs is in use."""
SMALL: Final = 4096
"""Tables of so many pairs or fewer are dense from the start."""


class HalfWins:
    """How many half wins each entrant has over each other one: 2 for a win, 1 for a draw.

    Counts only ever add up, so any order of additions gives the same table, and an addition of the negative
    takes one back exactly. Memory is bounded by the pairs in use and never above the full table.
    """

    def __init__(self, entrants: int) -> None:
        self._entrants = entrants
        self._dense: Ints | None = None
        self._keys: list[Ints] = []
        self._counts: list[Ints] = []
        self._pending = 0
        self._settled = 0
        if entrants * entrants <= SMALL:
            self._dense = np.zeros((entrants, entrants), dtype=np.int64)

    def add(self, who: Ints, counts: Ints) -> None:
        """Add `counts[a, b]` half wins of `who[a]` over `who[b]`; `who` holds each entrant once."""
        if self._dense is not None:
            self._dense[np.ix_(who, who)] += counts
            return
        used = counts != 0
        keys = (who[:, None] * self._entrants + who)[used]
        self._keys.append(keys)
        self._counts.append(counts[used])
        self._pending += len(keys)
        if self._pending > max(SMALL, self._settled):
            self._settle()

    def of_pair(self, first: int, second: int) -> int:
        """Half wins of `first` over `second`."""
        if self._dense is not None:
            return int(self._dense[first, second])
        keys, counts = self.table()
        at = int(np.searchsorted(keys, first * self._entrants + second))
        hit = at < len(keys) and keys[at] == first * self._entrants + second
        return int(counts[at]) if hit else 0

    def table(self) -> tuple[Ints, Ints]:
        """The pairs in use as sorted keys `first * entrants + second`, and their counts."""
        if self._dense is None:
            self._settle()
        if self._dense is not None:
            flat = self._dense.ravel()
            keys = np.flatnonzero(flat).astype(np.int64)
            return keys, flat[keys]
        return (self._keys[0], self._counts[0]) if self._keys else (_empty(), _empty())

    def sums(self) -> tuple[Ints, Ints]:
        """Half wins and half losses of each entrant over all others."""
        keys, counts = self.table()
        first, second = np.divmod(keys, self._entrants)
        won, lost = np.zeros(self._entrants, dtype=np.int64), np.zeros(self._entrants, dtype=np.int64)
        np.add.at(won, first, counts)
        np.add.at(lost, second, counts)
        return won, lost

    def _settle(self) -> None:
        """Merge what is pending; go over to the full table once it is the smaller one."""
        if not self._keys:
            return
        keys, place = np.unique(np.concatenate(self._keys), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, place, np.concatenate(self._counts))
        used = counts != 0
        keys, counts = keys[used], counts[used]
        size = self._entrants * self._entrants
        self._keys, self._counts, self._pending, self._settled = [keys], [counts], 0, len(keys)
        if self._entrants <= DENSE_ENTRANTS and len(keys) * DENSE_SHARE >= size:
            self._dense = np.zeros((self._entrants, self._entrants), dtype=np.int64)
            self._dense.ravel()[keys] = counts
            self._keys, self._counts = [], []


def _empty() -> Ints:
    return np.zeros(0, dtype=np.int64)
