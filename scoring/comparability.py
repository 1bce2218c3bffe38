"""When two results may be compared (S4-33), and the reasons when they may not (S4-34).

Equal must be: suite version, timeout, step limit, network policy, permitted tools (as a set), hardware
class, number of repeats, provenance; and, for rubric packs, the judge (S3-4). The model may differ, because
the pairing of agent and model is what users choose. The relation is reflexive and symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from scoring.facts import Conditions
from scoring.numbers import fixed


class Condition(StrEnum):
    """What must be equal, in the order of the document; the value is the reason's code."""

    SUITE_VERSION = "suite_version"
    TIMEOUT = "timeout"
    STEP_LIMIT = "step_limit"
    NETWORK_POLICY = "network_policy"
    PERMITTED_TOOLS = "permitted_tools"
    HARDWARE_CLASS = "hardware_class"
    REPEATS = "repeats"
    PROVENANCE = "provenance"
    JUDGE = "judge"
    UNKNOWN = "conditions_unknown"


@dataclass(frozen=True)
class Difference:
    """One reason why two results are not compared, with both sides in words."""

    condition: Condition
    a: str
    b: str

    @property
    def text(self) -> str:
        """`not comparable: timeout 900 s vs 1200 s`."""
        return f"not comparable: {self.condition.value.replace('_', ' ')} {self.a} vs {self.b}"


def differences(a: Conditions, b: Conditions) -> tuple[Difference, ...]:
    """Every condition of S4-33 that differs, in the document's order; empty means comparable.

    Screenings of different tasks of one pack version ran different suites; timeouts are compared per task
    where the tasks are the same. The container runtime is part of the hardware class.
    """
    rows = [
        (Condition.SUITE_VERSION, *_suites(a, b)),
        (Condition.TIMEOUT, *_timeouts(a, b)),
        (Condition.STEP_LIMIT, _limit(a.step_limit), _limit(b.step_limit)),
        (Condition.NETWORK_POLICY, a.network_policy, b.network_policy),
        (Condition.PERMITTED_TOOLS, _tools(a), _tools(b)),
        (Condition.HARDWARE_CLASS, _hardware(a), _hardware(b)),
        (Condition.REPEATS, str(a.repeats), str(b.repeats)),
        (Condition.PROVENANCE, a.provenance.value, b.provenance.value),
    ]
    return tuple(Difference(*row) for row in rows if row[1] != row[2])


def _suites(a: Conditions, b: Conditions) -> tuple[str, str]:
    tasks_a, tasks_b = ({task for task, _ in one.timeouts_ms} for one in (a, b))
    if tasks_a == tasks_b:
        return a.suite_version, b.suite_version
    only_a, only_b = sorted(tasks_a - tasks_b), sorted(tasks_b - tasks_a)
    return f"{a.suite_version} {_alone(only_a)}", f"{b.suite_version} {_alone(only_b)}"


def _alone(tasks: list[str]) -> str:
    return f"({len(tasks)} tasks of its own" + (f", first {tasks[0]})" if tasks else ")")


def _timeouts(a: Conditions, b: Conditions) -> tuple[str, str]:
    """The first task in both whose timeout differs; two equal texts when none does."""
    theirs = dict(b.timeouts_ms)
    for task, ms in a.timeouts_ms:
        other = theirs.get(task, ms)
        if other != ms:
            return _seconds(ms), f"{_seconds(other)} (task {task})"
    return "", ""


def _seconds(ms: int) -> str:
    return f"{fixed(Fraction(ms, 1000), 3).rstrip('0').rstrip('.')} s"


def _limit(steps: int | None) -> str:
    return "none" if steps is None else str(steps)


def _tools(one: Conditions) -> str:
    """Not restricted is another condition than any set, also than the empty one."""
    return "not restricted" if one.permitted_tools is None else repr(sorted(one.permitted_tools))


def _hardware(one: Conditions) -> str:
    return f"{one.hardware_class} with {one.runtime}"
