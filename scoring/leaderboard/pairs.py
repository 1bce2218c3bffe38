"""Weights of the same-question comparisons, kept exactly and task by task (S1-5 .. S1-10, S1-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from scoring.errors import MalformedInputError
from scoring.leaderboard.entries import TaskScores
from scoring.leaderboard.half_wins import HalfWins, Ints

HALVES: Final = 2
"""Counts are half wins: a win is two of them, a draw one for each side (S1-6, S1-7)."""
CHUNK: Final = 1 << 22
"""Comparisons looked at in one go; bounds the memory of a large group."""


@dataclass(frozen=True)
class Group:
    """Tasks with the same entrants: `who` (n,) are entrant numbers, `levels` (tasks, n) their order on
    each."""

    who: Ints
    levels: Ints

    def half_wins(self) -> Ints:
        """(n, n) sums over the tasks: 2 where the row's entrant is higher, 1 where equal, 0 on the
        diagonal."""
        size = len(self.who)
        total = np.zeros((size, size), dtype=np.int64)
        step = max(1, CHUNK // (size * size))
        for start in range(0, len(self.levels), step):
            part = self.levels[start : start + step]
            higher = np.sum(part[:, :, None] > part[:, None, :], axis=0, dtype=np.int64)
            total += higher + len(part) - higher.T  # higher + not lower = 2 higher + equal
        np.fill_diagonal(total, 0)
        return total


def groups(tasks: Iterable[TaskScores], number: Mapping[str, int]) -> list[Group]:
    """The tasks that have a comparison, by who took part; in the order of the entrants' numbers."""
    found: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    for task in tasks:
        if len(task.entrants) > 1:
            found.setdefault(task.entrants, []).append(task.levels)
    made = []
    for entrants in sorted(found):
        who = np.array([_number(name, number) for name in entrants], dtype=np.int64)
        made.append(Group(who, np.array(found[entrants], dtype=np.int64)))
    return made


class PairWeights:
    """W[a, b]: the accumulated weight of a's wins over b.

    On a task with n entrants each of the n(n-1)/2 comparisons weighs 1/(n-1), so every entrant weighs
    exactly 1 (S1-8, S1-9). Kept as half-win counts per n, whole numbers: adding a task is n^2 work, the
    order of tasks has no effect, and `remove` takes a task back exactly (a new result on a task replaces
    its table).
    """

    def __init__(self, entrants: Sequence[str]) -> None:
        """Raises `MalformedInputError("duplicate-entrant")`."""
        self.entrants = tuple(entrants)
        self.number = {name: place for place, name in enumerate(self.entrants)}
        if len(self.number) != len(self.entrants):
            raise MalformedInputError("duplicate-entrant", "an entrant is listed twice")
        self._by_size: dict[int, HalfWins] = {}

    def add(self, task: TaskScores) -> None:
        """Add one task's comparisons; raises `MalformedInputError("unknown-entrant")`."""
        for group in groups([task], self.number):
            self.add_group(group)

    def remove(self, task: TaskScores) -> None:
        """Take back a task that was added with the same scores."""
        for group in groups([task], self.number):
            self._counts(group).add(group.who, -group.half_wins())

    def add_group(self, group: Group) -> None:
        """Add all tasks of a group at once; the same as adding them one by one."""
        self._counts(group).add(group.who, group.half_wins())

    def win_weight(self, winner: str, loser: str) -> Fraction:
        """Exact weight of `winner`'s wins over `loser`, draws as halves."""
        pair = _number(winner, self.number), _number(loser, self.number)
        parts = (Fraction(c.of_pair(*pair), HALVES * (size - 1)) for size, c in self._by_size.items())
        return sum(parts, Fraction(0))

    def records(self) -> list[tuple[Fraction, Fraction]]:
        """(weight of wins, weight of all comparisons) of each entrant, exactly; the latter is its number of
        compared tasks (S1-9)."""
        wins = [Fraction(0)] * len(self.entrants)
        games = [Fraction(0)] * len(self.entrants)
        for size, counts in self._by_size.items():
            won, lost = counts.sums()
            for place, (win, loss) in enumerate(zip(won.tolist(), lost.tolist(), strict=True)):
                wins[place] += Fraction(win, HALVES * (size - 1))
                games[place] += Fraction(win + loss, HALVES * (size - 1))
        return list(zip(wins, games, strict=True))

    def rows(self) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
        """(winner, loser, weight) rows for the solver, weights rounded to binary floats once per n; a pair
        may come once per n. Always in the same order."""
        winners, losers, weights = [_none()], [_none()], [np.zeros(0)]
        for size in sorted(self._by_size):
            keys, counts = self._by_size[size].table()
            first, second = np.divmod(keys, len(self.entrants))
            winners.append(first)
            losers.append(second)
            weights.append(counts / (HALVES * (size - 1)))
        return np.concatenate(winners), np.concatenate(losers), np.concatenate(weights)

    def _counts(self, group: Group) -> HalfWins:
        size = len(group.who)
        if size not in self._by_size:
            self._by_size[size] = HalfWins(len(self.entrants))
        return self._by_size[size]


def _number(name: str, number: Mapping[str, int]) -> int:
    try:
        return number[name]
    except KeyError:
        raise MalformedInputError("unknown-entrant", f"{name!r:.60} is not an entrant of this page") from None


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)
