"""The separate figures of `rate-ai-agent/1`: success, cost, time, failures, repeatability, progress.

Each is a pure function of counted attempts and gives an exact figure with its sum, or None with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from scoring.averages import median_of
from scoring.numbers import NANO_PER_USD, POINTS
from scoring.rate_agent_attempts import FAILURES, Attempt, End
from scoring.rate_agent_result import MissingFigure, RatedFigure, TaskAttempts

NONE: Final = RatedFigure(None, MissingFigure.NO_ATTEMPT)


def task_attempts(attempts: Sequence[Attempt]) -> tuple[TaskAttempts, ...]:
    """Counts per task, sorted by task (S4-6, S4-7)."""
    slots = Counter(one.task for one in attempts)
    counted = Counter(one.task for one in attempts if one.counted)
    passed = Counter(one.task for one in attempts if one.counted and one.passed)
    return tuple(TaskAttempts(task, passed[task], counted[task], slots[task]) for task in sorted(slots))


def success_score(passed: int, attempts: int) -> RatedFigure:
    """S4-4: points 0..100, pooled over attempts."""
    if not attempts:
        return NONE
    return RatedFigure(
        Fraction(POINTS * passed, attempts), None, f"100 x {passed} passed / {attempts} attempts"
    )


def cost_figures(counted: Sequence[Attempt], passed: int, tasks: int) -> tuple[RatedFigure, ...]:
    """Total, per attempt, per distinct task, per success (S4-8 .. S4-11); one unknown cost dashes all."""
    if not counted:
        return (NONE,) * 4
    known = [one.cost_nusd for one in counted if one.cost_nusd is not None]
    if len(known) < len(counted):
        return (RatedFigure(None, MissingFigure.UNKNOWN_COST),) * 4
    total = Fraction(sum(known), NANO_PER_USD)
    spent = f"{sum(known)} nano-USD / {NANO_PER_USD}"
    return (
        RatedFigure(total, None, spent),
        RatedFigure(total / len(counted), None, f"{spent} / {len(counted)} attempts"),
        RatedFigure(total / tasks, None, f"{spent} / {tasks} tasks"),
        RatedFigure(total / passed, None, f"{spent} / {passed} passed attempts")
        if passed
        else RatedFigure(None, MissingFigure.NO_SUCCESS),
    )


def median_time(counted: Sequence[Attempt]) -> RatedFigure:
    """S4-12: over every counted attempt, timeouts included."""
    if not counted:
        return NONE
    value = median_of([Fraction(one.time_ms) for one in counted])
    return RatedFigure(value, None, f"median of {len(counted)} attempts in ms")


def failure_rate(ends: Counter[End], attempts: int) -> RatedFigure:
    """S4-13: timeouts, crashes and tool errors over attempts."""
    if not attempts:
        return NONE
    terms = " + ".join(f"{ends[end]} {end}" for end in FAILURES)
    failed = sum(ends[end] for end in FAILURES)
    return RatedFigure(Fraction(failed, attempts), None, f"({terms}) / {attempts} attempts")


def repeatability(tasks: Sequence[TaskAttempts]) -> RatedFigure:
    """S4-15: share of tasks with the same outcome on every attempt."""
    if not any(task.attempts for task in tasks):
        return NONE
    repeated = [task for task in tasks if task.attempts > 1]
    if not repeated:
        return RatedFigure(None, MissingFigure.ONE_ATTEMPT)
    same = sum(task.passed in (0, task.attempts) for task in repeated)
    text = f"{same} tasks with one outcome / {len(repeated)} tasks with two attempts or more"
    return RatedFigure(Fraction(same, len(repeated)), None, text)


def partial_progress(counted: Sequence[Attempt]) -> RatedFigure:
    """S4-16: mean share of hidden checks over attempts that did not pass; never in score or levels."""
    if not counted:
        return NONE
    failed = [one for one in counted if not one.passed]
    if not failed:
        return RatedFigure(None, MissingFigure.ALL_PASSED)
    shares = Counter((one.checks_passed, one.checks_total) for one in failed if one.checks_total)
    graded = shares.total()
    if not graded:
        return RatedFigure(None, MissingFigure.NO_CHECKS)
    total = sum((Fraction(c or 0, n or 1) * times for (c, n), times in shares.items()), Fraction(0))
    text = f"{total} checks shares / {graded} of {len(failed)} attempts that did not pass"
    return RatedFigure(total / graded, None, text)
