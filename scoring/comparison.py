"""What a comparison takes and hands out (`statistics/1`): two sides, the paired tasks, and a conclusion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.comparability import Difference
from scoring.detectable import Detectable
from scoring.digests import plain
from scoring.domain import count, pair
from scoring.errors import MalformedInputError
from scoring.facts import Conditions
from scoring.noise import ALPHA
from scoring.numbers import DASH, fixed, points, ratio, show_points
from scoring.results import MethodologyResult, Reading
from scoring.statistics_readings import READINGS

METHODOLOGY: Final = "statistics/1"


@dataclass(frozen=True)
class TaskCounts:
    """One task of one side: passes <= counted <= slots; slots that were not counted are unknown."""

    task: str
    passes: int
    counted: int
    slots: int

    def __post_init__(self) -> None:
        pair(f"task {self.task}", self.passes, self.counted)
        if self.counted > count("slots", self.slots):
            raise MalformedInputError("pass-count", f"{self.counted} counted tries in {self.slots} slots")

    @property
    def share(self) -> Fraction | None:
        """passes / counted; None without a counted try."""
        return Fraction(self.passes, self.counted) if self.counted else None

    @property
    def least(self) -> Fraction:
        """The share if every slot that was not counted had failed."""
        return Fraction(self.passes, self.slots)

    @property
    def most(self) -> Fraction:
        """The share if every slot that was not counted had passed."""
        return Fraction(self.slots - self.counted + self.passes, self.slots)


@dataclass(frozen=True)
class Side:
    """One result as far as a comparison needs it; `judge` is part of the key of rubric packs (S3-4)."""

    name: str
    methodology: str
    conditions: Conditions | None
    judge: str
    pack_digest: str | None
    tasks: tuple[TaskCounts, ...]
    inputs_digest: str

    def __post_init__(self) -> None:
        if len({one.task for one in self.tasks}) != len(self.tasks):
            raise MalformedInputError("duplicate-task", f"{self.name} lists a task twice")


class Verdict(StrEnum):
    """The conclusion of a comparison."""

    A_ABOVE = "a-above"
    B_ABOVE = "b-above"
    NOT_TOLD_APART = "not-told-apart"
    NOT_COMPARABLE = "not-comparable"
    NOTHING_PAIRED = "nothing-paired"


@dataclass(frozen=True)
class PairedTask:
    """One task with both sides; None where a side did not run it."""

    task: str
    a: TaskCounts | None
    b: TaskCounts | None

    @property
    def difference(self) -> Fraction | None:
        """Share of A minus share of B; None when one of them has no counted try."""
        if self.a is None or self.b is None or self.a.share is None or self.b.share is None:
            return None
        return self.a.share - self.b.share


@dataclass(frozen=True)
class Comparison(MethodologyResult):
    """Two results of one methodology, task by task. When they are not comparable the values stay readable
    and every conclusion is None (S4-34).

    `difference` is the mean task difference A - B over the paired tasks, a share -1..1, with its `p_value`,
    both on counted tries. `worst_case` and `p_worst_case` are the same with every other slot decided against
    the side that is ahead (0 and 1 when then neither is); they decide, and are equal to the former when
    every slot was counted.
    """

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    a: Side
    b: Side
    reasons: tuple[Difference, ...]
    tasks: tuple[PairedTask, ...]
    difference: Fraction | None
    p_value: Fraction | None
    worst_case: Fraction | None
    p_worst_case: Fraction | None
    detectable: Detectable | None
    inputs_digest: str

    @property
    def comparable(self) -> bool:
        """Whether nothing of S4-33 differs."""
        return not self.reasons

    @property
    def paired(self) -> int:
        """Tasks where both sides have a counted try."""
        return sum(task.difference is not None for task in self.tasks)

    @property
    def verdict(self) -> Verdict:
        """What can be said at 5%."""
        if not self.comparable:
            return Verdict.NOT_COMPARABLE
        if self.p_worst_case is None or self.worst_case is None:
            return Verdict.NOTHING_PAIRED
        if self.p_worst_case > ALPHA:
            return Verdict.NOT_TOLD_APART
        return Verdict.A_ABOVE if self.worst_case > 0 else Verdict.B_ABOVE

    @property
    def noise_sentence(self) -> str | None:
        """How small a difference is noise here (S4-35); None when nothing is concluded."""
        if self.p_value is None:
            return None
        if self.detectable is None:
            return f"no difference can be told apart here: {self.paired} tasks are too few for the test"
        return f"differences under {self._detectable()} points cannot be told apart here"

    def _detectable(self) -> str:
        return DASH if self.detectable is None else fixed(points(Fraction(self.detectable.share)), 1)

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        verdict, a, b = self.verdict, self.a.name, self.b.name
        if verdict is Verdict.NOT_COMPARABLE:
            return "; ".join(one.text for one in self.reasons)
        if verdict is Verdict.NOTHING_PAIRED:
            return f"{a} and {b} have no task on which both have a counted try"
        shown = f"difference {show_points(points(self.difference or Fraction(0)))} points"
        tested = f"p = {show_p(self.p_value)}"
        if self.worst_case != self.difference:
            tested += f"; with every uncounted slot against the leader p = {show_p(self.p_worst_case)}"
        if verdict is Verdict.A_ABOVE:
            return f"{a} passes more than {b} on these tasks: {shown}, {tested}"
        if verdict is Verdict.B_ABOVE:
            return f"{b} passes more than {a} on these tasks: {shown}, {tested}"
        return f"{a} and {b} cannot be told apart: {shown}, {tested}"

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum as text."""
        return (*_task_lines(self), *_test_lines(self), *(() if self.comparable else (self.sentence,)))

    def as_data(self) -> dict[str, Any]:
        """Plain data for `--json` and pages: exact figures as `n/d`, missing null; no binary float."""
        return {
            "methodology": self.methodology,
            "of": self.a.methodology,
            "a": self.a.name,
            "b": self.b.name,
            "comparable": self.comparable,
            "reasons": [
                {"code": one.condition.value, "a": one.a, "b": one.b, "text": one.text}
                for one in self.reasons
            ],
            "tasks": [
                {
                    "task": one.task,
                    "a": None if one.a is None else _counts(one.a),
                    "b": None if one.b is None else _counts(one.b),
                    "difference": plain(one.difference),
                }
                for one in self.tasks
            ],
            "paired_tasks": self.paired,
            "difference": plain(self.difference),
            "p_value": _p_data(self.p_value),
            "worst_case": plain(self.worst_case),
            "p_worst_case": _p_data(self.p_worst_case),
            "verdict": self.verdict.value,
            "sentence": self.sentence,
            "detectable_points": None if self.detectable is None else self._detectable(),
            "noise": self.noise_sentence,
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


def show_p(value: Fraction | None) -> str:
    """Four decimals, never 0.0000 for a p-value that is not 0; the dash for a missing one."""
    if value is None:
        return DASH
    return "< 0.0001" if 0 < value < Fraction(1, 10_000) else fixed(value, 4)


def _p_data(value: Fraction | None) -> dict[str, str] | None:
    return None if value is None else {"exact": ratio(value), "display": show_p(value)}


def _counts(one: TaskCounts) -> dict[str, Any]:
    return {"passes": one.passes, "counted": one.counted, "slots": one.slots}


def _side(one: TaskCounts | None) -> str:
    if one is None:
        return "not run"
    return f"{one.passes} of {one.counted} counted, {one.slots} slots"


def _task_lines(made: Comparison) -> list[str]:
    return [
        f"task {one.task}: {_side(one.a)} - {_side(one.b)} = "
        + (DASH if one.difference is None else str(one.difference))
        for one in made.tasks
    ]


def _test_lines(made: Comparison) -> list[str]:
    if made.difference is None:
        return []
    terms = " + ".join(f"({one.difference})" for one in made.tasks if one.difference is not None)
    out = [
        f"mean difference = ({terms}) / {made.paired} = {ratio(made.difference)}",
        f"exact sign-flip p over {made.paired} tasks = {plain(made.p_value)}",
        f"with every uncounted slot against the leader: mean difference {plain(made.worst_case)}, "
        f"p = {plain(made.p_worst_case)}",
    ]
    if made.detectable is None:
        return [*out, made.noise_sentence or ""]
    parts = made.detectable
    return [
        *out,
        f"{made.noise_sentence}: max((z.975 + z.80) x sqrt(max(spread {parts.spread}, "
        f"re-run {parts.rerun})), least step {parts.least_step})",
    ]
