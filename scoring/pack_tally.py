"""From a plan and its verified tries to counts: the part of `pack-score/1` that looks at single tries.

Refuses input that no screening can produce; everything that follows works on the counts only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from scoring.classify import (
    COULD_NOT_BE_COUNTED,
    COUNTED,
    FINISHED,
    PASSES,
    TryClass,
    View,
    classify,
    kind_of,
    reads_as_simulated,
)
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.tries import Plan, VerifiedTry
from scoring.vocabulary import Reason

Kinds = tuple[tuple[str, int], ...]
"""Counts by kind, sorted by kind."""


@dataclass(frozen=True)
class TaskTally:
    """The tries of one task of the pack. `slots` is the denominator of floor and ceiling."""

    task_id: str
    planned: int
    slots: int
    counted: int
    passes: int
    unfinished: int
    could_not_be_counted: int
    left_out: int

    @property
    def share(self) -> Fraction | None:
        """passes / counted tries (S3-23); None when the task is not scored (S3-24)."""
        return Fraction(self.passes, self.counted) if self.counted else None

    @property
    def floor(self) -> Fraction:
        """passes / slots: whatever is not a counted pass is a failure."""
        return Fraction(self.passes, self.slots)

    @property
    def ceiling(self) -> Fraction:
        """Whatever is not a counted failure is a pass."""
        return Fraction(self.slots - (self.counted - self.passes), self.slots)


@dataclass(frozen=True)
class Spend:
    """Metered cost of a group of tries: `nusd` sums the known ones, in integer nano-USD."""

    tries: int
    nusd: int
    unmetered: int
    withheld: int


@dataclass(frozen=True)
class Counts:
    """What the card always prints, also when 0 (UI-11). `non_public` are the private tries in the view."""

    recorded: int
    unfinished: int
    unfinished_by_kind: Kinds
    no_verdict: int
    could_not_be_counted: int
    could_not_be_counted_by_kind: Kinds
    left_out_certificate: int
    passes_without_certificate: int
    simulated: int
    non_public: int


@dataclass(frozen=True)
class Tally:
    """Everything that the figures of the card are made of."""

    tasks: tuple[TaskTally, ...]
    counts: Counts
    finished: int
    not_evaluable: int
    finished_spend: Spend
    unfinished_spend: Spend
    visible: tuple[VerifiedTry, ...]


@dataclass
class _Running:
    """Accumulates while the tries are walked."""

    classes: dict[str, Counter[TryClass]] = field(default_factory=dict)
    unfinished: Counter[str] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)
    simulated: int = 0
    non_public: int = 0
    finished_costs: list[tuple[str, int | None]] = field(default_factory=list)
    unfinished_costs: list[tuple[str, int | None]] = field(default_factory=list)

    def take(self, try_: VerifiedTry, class_: TryClass) -> None:
        self.classes.setdefault(try_.task_id, Counter())[class_] += 1
        self.simulated += reads_as_simulated(try_, class_)
        self.non_public += not try_.public
        if class_ is TryClass.UNFINISHED:
            self.unfinished[kind_of(try_, class_)] += 1
            self.unfinished_costs.append((try_.task_id, try_.cost_nusd))
        elif class_ in COULD_NOT_BE_COUNTED:
            self.uncounted[kind_of(try_, class_)] += 1
        elif class_ in FINISHED:
            self.finished_costs.append((try_.task_id, try_.cost_nusd))


def tally(plan: Plan, tries: Sequence[VerifiedTry], view: View) -> Tally:
    """Classify and count the tries that `view` may see.

    In the public view other tries are dropped before anything else (S3-12), so the result, errors
    included, is a function of the public tries. A planned slot without a visible try counts as
    `never_recorded` (S3-15). Raises `MalformedInputError` with the codes of `_check_slots`
    and `_check_same`, and `MethodologyMixError("provenance-mix")`.
    """
    visible = [(try_, classify(_verified(try_), view)) for try_ in tries]
    visible = [(try_, class_) for try_, class_ in visible if class_ is not TryClass.HIDDEN]
    _check_slots(plan, [try_ for try_, _ in visible])
    running = _Running()
    for try_, class_ in visible:
        running.take(try_, class_)
    tasks = tuple(_task(plan, task, running) for task in plan.pack_tasks)
    total = sum(running.classes.values(), Counter[TryClass]())
    return Tally(
        tasks=tasks,
        counts=_counts(running, total),
        finished=sum(total[class_] for class_ in FINISHED),
        not_evaluable=total[TryClass.NOT_EVALUABLE],
        finished_spend=_spend(plan, running.finished_costs),
        unfinished_spend=_spend(plan, running.unfinished_costs),
        visible=tuple(try_ for try_, _ in visible),
    )


def _verified(try_: object) -> VerifiedTry:
    if not isinstance(try_, VerifiedTry):
        raise MalformedInputError("not-a-verified-try", f"a {type(try_).__name__} is not a verified try")
    return try_


def _check_slots(plan: Plan, tries: Sequence[VerifiedTry]) -> None:
    """Each try belongs to this screening, sits in a planned slot of its own, and has its own certificate."""
    slots: set[tuple[str, int]] = set()
    digests: set[str] = set()
    for try_ in tries:
        name = f"try {try_.index} of task {try_.task_id}"
        _check_same(plan, try_, name)
        if try_.index > plan.planned.get(try_.task_id, 0):
            raise MalformedInputError("unplanned-slot", f"{name} was not planned")
        if (try_.task_id, try_.index) in slots:
            raise MalformedInputError("duplicate-slot", f"{name} appears twice")
        slots.add((try_.task_id, try_.index))
        if try_.certificate_digest is not None:
            if try_.certificate_digest in digests:
                raise MalformedInputError("duplicate-certificate", f"{name} repeats a certificate")
            digests.add(try_.certificate_digest)


def _check_same(plan: Plan, try_: VerifiedTry, name: str) -> None:
    """Screening, pack version, agent revision and provenance are the plan's; unstated is no clash."""
    if try_.screening_id != plan.screening_id:
        raise MalformedInputError("foreign-screening", f"{name} belongs to another screening")
    if try_.pack_digest != plan.pack_digest or _clash(try_.pack_version, plan.pack_version):
        raise MalformedInputError("foreign-pack", f"{name} ran under another pack version")
    if (try_.agent_id, try_.agent_digest) != (plan.agent_id, plan.agent_digest) or _clash(
        try_.agent_version, plan.agent_version
    ):
        raise MalformedInputError("foreign-agent", f"{name} ran another agent revision")
    if _clash(try_.provenance, plan.provenance):
        raise MethodologyMixError("provenance-mix", f"{name} has another provenance label than its screening")


def _clash(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _task(plan: Plan, task_id: str, running: _Running) -> TaskTally:
    classes = running.classes.get(task_id, Counter())
    planned = plan.planned.get(task_id, 0)
    missing = planned - classes.total()
    if missing:
        running.uncounted[Reason.NEVER_RECORDED.value] += missing
    return TaskTally(
        task_id=task_id,
        planned=planned,
        slots=max(planned, plan.declared_tries),
        counted=sum(classes[class_] for class_ in COUNTED),
        passes=sum(classes[class_] for class_ in PASSES),
        unfinished=classes[TryClass.UNFINISHED],
        could_not_be_counted=missing + sum(classes[class_] for class_ in COULD_NOT_BE_COUNTED),
        left_out=classes[TryClass.LEFT_OUT_CERTIFICATE],
    )


def _counts(running: _Running, total: Counter[TryClass]) -> Counts:
    return Counts(
        recorded=total.total(),
        unfinished=total[TryClass.UNFINISHED],
        unfinished_by_kind=tuple(sorted(running.unfinished.items())),
        no_verdict=total[TryClass.NO_VERDICT],
        could_not_be_counted=running.uncounted.total(),
        could_not_be_counted_by_kind=tuple(sorted(running.uncounted.items())),
        left_out_certificate=total[TryClass.LEFT_OUT_CERTIFICATE],
        passes_without_certificate=total[TryClass.PASS_WITHOUT_CERTIFICATE],
        simulated=running.simulated,
        non_public=running.non_public,
    )


def _spend(plan: Plan, costs: Sequence[tuple[str, int | None]]) -> Spend:
    return Spend(
        tries=len(costs),
        nusd=sum(cost for _, cost in costs if cost is not None),
        unmetered=sum(cost is None for _, cost in costs),
        withheld=sum(task in plan.withheld_tasks for task, _ in costs),
    )
