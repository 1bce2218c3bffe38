"""`rate-ai-agent/1`: can this agent do this kind of work (Rate AI Agent).

The headline figure is the task success score, passed attempts / total attempts x 100, pooled over tasks
(S4-4). Cost, time, failure rate, repeatability and partial progress stand beside it and are never folded
in (S4-23); levels say in words what each use case and difficulty came to. Who requested or funded the run
is no input (S4-36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from scoring import rate_agent_figures as figures
from scoring.classify import View
from scoring.digests import digest
from scoring.errors import MalformedInputError
from scoring.facts import Conditions, Difficulty, Provenance, TaskTags
from scoring.levels import USE_CASES, GroupLevel, level
from scoring.numbers import POINTS
from scoring.rate_agent_attempts import COUNTED_ENDS, FAILURES, NO_TAGS, Attempt, End, attempts_of
from scoring.rate_agent_composite import Composite, composite
from scoring.rate_agent_result import (
    METHODOLOGY,
    AgentRating,
    RatedFigure,
    RatedSubject,
    Status,
)
from scoring.tries import Plan, VerifiedTry

__all__ = ["METHODOLOGY", "rate", "rate_screening"]

_ENDS: Final = (End.COMPLETED, *FAILURES)
"""How a counted attempt can end."""
_OUTSIDE: Final = tuple(end for end in End if end not in COUNTED_ENDS)


def rate_screening(
    plan: Plan, tries: Sequence[VerifiedTry], *, view: View, with_composite: bool = False
) -> AgentRating:
    """Rate one screening from its verified tries; see `rate`.

    A plan whose conditions are not known has no provenance and is taken as not evaluated: no levels, no
    rank. Raises the codes of `attempts_of`.
    """
    return rate(
        attempts_of(plan, tries, view),
        name=plan.agent_id,
        provenance=plan.provenance or Provenance.NOT_EVALUATED,
        tags=plan.tags or {},
        subject=RatedSubject(
            screening_id=plan.screening_id,
            agent_digest=plan.agent_digest,
            agent_version=plan.agent_version,
            models=plan.models,
            pack_id=plan.pack_id,
            pack_version=plan.pack_version,
            pack_digest=plan.pack_digest,
            judge=plan.judge,
        ),
        conditions=plan.conditions,
        with_composite=with_composite,
    )


def rate(
    attempts: Sequence[Attempt],
    *,
    name: str,
    provenance: Provenance,
    tags: Mapping[str, TaskTags] | None = None,
    subject: RatedSubject | None = None,
    conditions: Conditions | None = None,
    with_composite: bool = False,
) -> AgentRating:
    """Rate an agent from its attempts on one suite (S4-1 .. S4-32). Their order has no effect.

    `tags` gives use cases and difficulty by task, set before any run. The composite is off unless asked
    for (S4-24). Raises `MalformedInputError`: `provenance`, `use-case`, and while attempts are built
    `number`, `attempt`, `passed-end`, `check-count`, `pass-count`.
    """
    if not isinstance(provenance, Provenance):
        raise MalformedInputError("provenance", f"{provenance!r:.60} is not a provenance label")
    tagged = {} if tags is None else dict(tags)
    counted = [one for one in attempts if one.counted]
    passed = sum(one.passed for one in counted)
    tasks = figures.task_attempts(attempts)
    success = figures.success_score(passed, len(counted))
    costs = figures.cost_figures(counted, passed, sum(task.attempts > 0 for task in tasks))
    time, repeated = figures.median_time(counted), figures.repeatability(tasks)
    ends = Counter(one.end for one in counted if not one.passed)
    outside = Counter(one.end for one in attempts if not one.counted)
    why = Counter(one.reason.value for one in attempts if not one.counted and one.reason is not None)
    independent = provenance is Provenance.INDEPENDENT
    return AgentRating(
        name=name,
        provenance=provenance,
        subject=subject,
        conditions=conditions,
        status=_status(attempts, counted),
        attempts=len(counted),
        passed=passed,
        tasks=tasks,
        ends=tuple((end, ends[end]) for end in _ENDS if ends[end]),
        outside=tuple((end, outside[end]) for end in _OUTSIDE if outside[end]),
        outside_reasons=tuple(sorted(why.items())),
        success=success,
        total_cost_usd=costs[0],
        cost_per_task_usd=costs[1],
        cost_per_distinct_task_usd=costs[2],
        cost_per_success_usd=costs[3],
        median_time_ms=time,
        failure_rate=figures.failure_rate(ends, len(counted)),
        repeatability=repeated,
        partial_progress=figures.partial_progress(counted),
        use_cases=_use_cases(counted, tagged, independent),
        difficulties=_difficulties(counted, tagged, independent),
        composite=_composite(success, costs[3], time, repeated) if with_composite else None,
        inputs_digest=_digest(attempts, [name, provenance, tagged, subject, conditions]),
    )


def _status(attempts: Sequence[Attempt], counted: Sequence[Attempt]) -> Status:
    if counted:
        return Status.RATED
    if attempts and all(one.end is End.NOT_EVALUABLE for one in attempts):
        return Status.NOT_EVALUABLE
    return Status.NOT_EVALUATED


def _use_cases(
    counted: Sequence[Attempt], tags: Mapping[str, TaskTags], independent: bool
) -> tuple[GroupLevel, ...]:
    """S4-17: a task counts in each of its one or two use cases."""
    unknown = {name for one in tags.values() for name in one.use_cases} - set(USE_CASES)
    if unknown:
        raise MalformedInputError("use-case", f"{min(unknown)!r:.60} is not a use case")
    groups = {name: [o for o in counted if name in _tags(tags, o).use_cases] for name in USE_CASES}
    return _groups(groups, independent)


def _difficulties(
    counted: Sequence[Attempt], tags: Mapping[str, TaskTags], independent: bool
) -> tuple[GroupLevel, ...]:
    """S4-22: by the human time of the reference solution."""
    groups = {one.value: [o for o in counted if _tags(tags, o).difficulty is one] for one in Difficulty}
    return _groups(groups, independent)


def _tags(tags: Mapping[str, TaskTags], one: Attempt) -> TaskTags:
    return tags.get(one.task, NO_TAGS)


def _groups(groups: Mapping[str, Sequence[Attempt]], independent: bool) -> tuple[GroupLevel, ...]:
    """S4-2: numbers always, a level only for independent results."""
    found = []
    for name, members in groups.items():
        if not members:
            continue
        passed, tasks = sum(one.passed for one in members), len({one.task for one in members})
        word = level(passed, len(members), tasks) if independent else None
        found.append(GroupLevel(name, passed, len(members), tasks, word))
    return tuple(found)


def _composite(
    success: RatedFigure, cost: RatedFigure, time: RatedFigure, repeated: RatedFigure
) -> Composite:
    rate_ = None if success.value is None else success.value / POINTS
    return composite(rate_, cost.value, time.value, repeated.value)


def _digest(attempts: Sequence[Attempt], facts: Sequence[object]) -> str:
    """Over the facts and the attempts in an order of their own."""
    rows = sorted(
        (one.task, one.end, one.reason or "", one.passed, one.time_ms, _known(one.cost_nusd), _checks(one))
        for one in attempts
    )
    return digest([*facts, rows])


def _known(cost_nusd: int | None) -> int:
    """Sortable: unknown is -1, which no cost is."""
    return -1 if cost_nusd is None else cost_nusd


def _checks(one: Attempt) -> tuple[int, int]:
    return (_known(one.checks_passed), _known(one.checks_total))
