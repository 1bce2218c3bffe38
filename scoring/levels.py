"""Plain-language levels by kind of work (`rate-ai-agent/1`, S4-17 .. S4-21).

A level is a function of a group's attempt success rate, compared exactly: 79.9% is Capable. Fewer than
three different tasks give no level, and the numbers are still shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.domain import count, pair


class Level(StrEnum):
    """The document's words; `TOO_FEW_TASKS` stands where a level would mislead."""

    STRONG = "Strong"
    CAPABLE = "Capable"
    INCONSISTENT = "Inconsistent"
    NOT_YET_RELIABLE = "Not yet reliable"
    TOO_FEW_TASKS = "Too few tasks"


THRESHOLDS: Final = (
    (Fraction(80, 100), Level.STRONG),
    (Fraction(50, 100), Level.CAPABLE),
    (Fraction(20, 100), Level.INCONSISTENT),
)
"""Lowest attempt success rate of each level; below all of them it is Not yet reliable (S4-18)."""
MIN_TASKS: Final = 3
"""Different tasks that a group needs to get a level (S4-19)."""
GOOD: Final = frozenset({Level.STRONG, Level.CAPABLE})
"""What the "Good at" filter accepts (S4-21)."""

USE_CASES: Final = {
    "bug-fixing": "Bug fixing",
    "building-features": "Building features",
    "refactoring": "Refactoring",
    "testing": "Testing",
    "security-fixes": "Security fixes",
    "reliability-performance": "Reliability & performance",
    "apis-data": "APIs & data",
}
"""The seven use cases with the names that are shown (S4-17)."""


@dataclass(frozen=True)
class GroupLevel:
    """One use case or difficulty: attempt counts, distinct tasks, and the level."""

    group: str
    passed: int
    attempts: int
    tasks: int
    level: Level | None

    @property
    def rate(self) -> Fraction | None:
        """Attempt success rate 0..1; None without attempts."""
        return Fraction(self.passed, self.attempts) if self.attempts else None

    @property
    def arithmetic(self) -> str:
        """The sum as text."""
        level = "no level, results are not independent" if self.level is None else self.level
        return f"{self.group}: {self.passed} / {self.attempts} attempts on {self.tasks} tasks: {level}"


def level(passed: int, attempts: int, distinct_tasks: int) -> Level:
    """The level of a group (S4-17 .. S4-20).

    Raises `MalformedInputError`: `number`, `pass-count` (passed above attempts, tasks above attempts).
    """
    pair("attempts", passed, attempts)
    pair("tasks of attempts", distinct_tasks, attempts)
    if count("distinct tasks", distinct_tasks) < MIN_TASKS:
        return Level.TOO_FEW_TASKS
    rate = Fraction(passed, attempts)
    return next((word for least, word in THRESHOLDS if rate >= least), Level.NOT_YET_RELIABLE)


def good_at(levels: Mapping[str, Level | None], selected: Iterable[str]) -> bool:
    """Whether every selected use case is Strong or Capable (S4-21); selecting nothing filters nothing."""
    return all(levels.get(use_case) in GOOD for use_case in selected)
