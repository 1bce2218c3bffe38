"""The time and cost columns of a page (S1-23 .. S1-31)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
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


def time_column(wall_ms: Iterable[int | Fraction | None]) -> Column:
    """Arithmetic mean in seconds over every valid run in scope, repeats each counted (S1-23, S1-24)."""
    known, runs = 0, 0
    total: int | Fraction = 0
    for value in wall_ms:
        runs += 1
        if value is not None:
            known += 1
            total += value
    return Column(Fraction(total) / (known * MS_PER_SECOND) if known else None, known, runs)


def cost_column(usd_by_task: Iterable[Sequence[Fraction | None]]) -> Column:
    """Mean of the repeats of a task first, then over tasks, in exact USD (S1-29).

    Runs of unknown cost are skipped, and a task without any known cost with them (S1-31).
    """
    known, runs = 0, 0
    means: list[Fraction] = []
    for repeats in usd_by_task:
        costs = [cost for cost in repeats if cost is not None]
        runs += len(repeats)
        known += len(costs)
        if costs:
            means.append(costs[0] if len(costs) == 1 else exact_sum(costs) / len(costs))
    return Column(exact_sum(means) / len(means) if means else None, known, runs)


def exact_sum(values: Sequence[Fraction]) -> Fraction:
    """The exact sum; equal denominators are added as integers, so that long columns stay linear."""
    by_denominator: dict[int, int] = {}
    for value in values:
        by_denominator[value.denominator] = by_denominator.get(value.denominator, 0) + value.numerator
    return sum((Fraction(top, bottom) for bottom, top in by_denominator.items()), Fraction(0))


def show_time(mean: Fraction | None) -> str:
    """Seconds with one decimal, or the dash (S1-25)."""
    return DASH if mean is None else fixed(mean, TIME_DECIMALS)


def show_cost(mean: Fraction | None) -> str:
    """USD with four decimals and without a sign of currency, or the dash (S1-30, S1-31)."""
    return DASH if mean is None else fixed(mean, COST_DECIMALS)
