"""Holm's step-down correction for many comparisons, and ranks as ranges (ST-7).

A rank is never a single number unless the corrected tests separate it: best = 1 + agents surely above,
worst = n - agents surely below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scoring.domain import share
from scoring.errors import MalformedInputError


def holm(p_values: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Adjusted p-values in the order of the input: the i-th smallest of m times m - i + 1, never falling,
    at most 1; exact. Raises `MalformedInputError`: `number`, `range`."""
    order = sorted(range(len(p_values)), key=lambda place: share("a p-value", p_values[place]))
    adjusted = [Fraction(0)] * len(p_values)
    running = Fraction(0)
    for done, place in enumerate(order):
        running = max(running, min(Fraction(1), (len(p_values) - done) * p_values[place]))
        adjusted[place] = running
    return tuple(adjusted)


@dataclass(frozen=True)
class RankRange:
    """Where an agent can stand among `of` agents: `best` <= `worst`, 1 is the top."""

    best: int
    worst: int
    of: int

    @property
    def display(self) -> str:
        """`2` or `1-4`."""
        return str(self.best) if self.best == self.worst else f"{self.best}-{self.worst}"


def rank_ranges(names: Sequence[str], surely_above: Iterable[tuple[str, str]]) -> dict[str, RankRange]:
    """The range of every name, from pairs (above, below) that a corrected test separates.

    Raises `MalformedInputError`: `duplicate-agent`, `foreign-agent`, `contradicting-order` for a pair that
    is given both ways or with itself.
    """
    if len(set(names)) != len(names):
        raise MalformedInputError("duplicate-agent", "an agent is listed twice")
    pairs = set(surely_above)
    if {name for pair in pairs for name in pair} - set(names):
        raise MalformedInputError("foreign-agent", "an order names an agent that is not compared")
    if any((below, above) in pairs for above, below in pairs):
        raise MalformedInputError("contradicting-order", "two agents are surely above each other")
    return {
        name: RankRange(
            best=1 + sum(below == name for _, below in pairs),
            worst=len(names) - sum(above == name for above, _ in pairs),
            of=len(names),
        )
        for name in names
    }
