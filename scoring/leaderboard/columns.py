"""The time and cost columns of a page (S1-23 .. S1-31), and the exact means that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final

from scoring.numbers import DASH, fixed

MS_PER_SECOND: Final = 1000
TIME_DECIMALS: Final = 1
COST_DECIMALS: Final = 4


@dataclass(frozen=True)
class Column:
    """An exact mean (seconds or USD) or None, and the valid runs that it covers: `known` of `runs`."""

    mean: Fraction | None
    known: int
    runs: int


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The valid runs of one entrant on one task: `total_ms` of the `known` ones."""

    total_ms: int | Fraction
    known: int
    runs: int

    @classmethod
    def of(cls, wall_ms: Sequence[int | Fraction | None]) -> TaskTimes:
        """From the wall time of each valid run, None where unknown."""
        known = [value for value in wall_ms if value is not None]
        return cls(sum(known), len(known), len(wall_ms))


@dataclass(frozen=True, slots=True)
class TaskCosts:
    """The valid runs of one entrant on one task: the mean USD of the `known` ones, None if none is."""

    mean_usd: Fraction | None
    known: int
    runs: int

    @classmethod
    def of(cls, cost_usd: Sequence[Fraction | None]) -> TaskCosts:
        """From the cost of each valid run, None where unknown."""
        known = [value for value in cost_usd if value is not None]
        return cls(exact_mean(known) if known else None, len(known), len(cost_usd))


def time_column(tasks: Iterable[TaskTimes]) -> Column:
    """Arithmetic mean in seconds over every valid run in scope, repeats each counted (S1-23, S1-24)."""
    known, runs = 0, 0
    total: int | Fraction = 0
    for task in tasks:
        known, runs, total = known + task.known, runs + task.runs, total + task.total_ms
    return Column(Fraction(total) / (known * MS_PER_SECOND) if known else None, known, runs)


def cost_column(tasks: Iterable[TaskCosts]) -> Column:
    """Mean of the repeats of a task first, then over tasks, in exact USD (S1-29).

    Runs of unknown cost are skipped, and a task without any known cost with them (S1-31).
    """
    known, runs = 0, 0
    means: list[Fraction] = []
    for task in tasks:
        known, runs = known + task.known, runs + task.runs
        if task.mean_usd is not None:
            means.append(task.mean_usd)
    return Column(exact_mean(means) if means else None, known, runs)


def exact_mean(values: Sequence[Fraction]) -> Fraction:
    """The exact mean of at least one value, added as whole numbers by denominator: linear in the values."""
    if len(values) == 1:
        return values[0]
    tops: dict[int, int] = {}
    for value in values:
        top, bottom = value.as_integer_ratio()
        tops[bottom] = tops.get(bottom, 0) + top
    common = lcm(*tops)
    total = sum(top * (common // bottom) for bottom, top in tops.items())
    return Fraction(total, common * len(values))


def show_time(mean: Fraction | None) -> str:
    """Seconds with one decimal, or the dash (S1-25)."""
    return DASH if mean is None else fixed(mean, TIME_DECIMALS)


def show_cost(mean: Fraction | None) -> str:
    """USD with four decimals and without a sign of currency, or the dash (S1-30, S1-31)."""
    return DASH if mean is None else fixed(mean, COST_DECIMALS)
