"""How a submission's score moved over its iterations (S2-29); shown beside the score, never in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Final

from scoring.domain import mark
from scoring.errors import MalformedInputError
from scoring.numbers import fixed

PLATEAU: Final = 2
"""Equal entries before the last one that make its rise a late jump (READING)."""


class TrajectoryClass(StrEnum):
    """What the document calls the shapes; `flat` is ours for no change at all."""

    ONE_SHOT = "one_shot"
    MONOTONIC_IMPROVEMENT = "monotonic_improvement"
    REGRESSION = "regression"
    LATE_JUMP = "late_jump"
    FLAT = "flat"


@dataclass(frozen=True)
class Trajectory:
    """Scores in the order of the iterations, exact, with their class."""

    scores: tuple[Fraction, ...]
    shape: TrajectoryClass

    @property
    def display(self) -> str:
        """`[60 → 72 → 85]`, each rounded to an integer."""
        return "[" + " → ".join(fixed(score, 0) for score in self.scores) + "]"


def trajectory(scores: Sequence[Fraction]) -> Trajectory:
    """Classify scores 0..100; the first class that fits: one entry, any decrease, no change, a plateau with
    one final rise, otherwise rising. Compared exactly, not as displayed.

    Raises `MalformedInputError`: `no-scores`, `number`, `range`.
    """
    ordered = tuple(mark("a trajectory entry", score) for score in scores)
    if not ordered:
        raise MalformedInputError("no-scores", "a trajectory has at least one entry")
    return Trajectory(ordered, _shape(ordered))


def _shape(scores: tuple[Fraction, ...]) -> TrajectoryClass:
    if len(scores) == 1:
        return TrajectoryClass.ONE_SHOT
    if any(later < earlier for earlier, later in pairwise(scores)):
        return TrajectoryClass.REGRESSION
    if scores[0] == scores[-1]:
        return TrajectoryClass.FLAT
    before = scores[:-1]
    if len(before) >= PLATEAU and before[0] == before[-1]:
        return TrajectoryClass.LATE_JUMP
    return TrajectoryClass.MONOTONIC_IMPROVEMENT
