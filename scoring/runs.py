"""Runs as the composite, the radar and repeatability see them (seed 000): what is recorded of one execution.

The three views read runs, not slots: a run that never completed says nothing about success (S0-2), and there
is no plan to hold against it. `runs_of` makes runs of verified tries; benchmark pack runs give none (S3-5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.classify import FINISHED, PASSES, TryClass, View, classify
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.facts import Population, Provenance
from scoring.numbers import usd
from scoring.pack_tally import tally
from scoring.results import Reading
from scoring.tries import Plan, VerifiedTry
from scoring.vocabulary import Reason


class RunStatus(StrEnum):
    """Where a run is. The first three are terminal (S0-15)."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OPEN = "open"


TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.TIMEOUT})

TIME_LIMITS: Final = frozenset({Reason.TIMEOUT, Reason.DEADLINE_OVERRUN})
RAN_TO_ITS_END: Final = frozenset(
    {Reason.ALL_CHECKS_PASSED, Reason.WRONG_OUTPUT, Reason.NO_VERDICT, Reason.TAMPERING}
)

RUN_STATUS: Final = Reading(
    "run-status",
    "S0-2, S0-15",
    "A try that ran to its end is a completed run, whatever its verdict; one stopped by a time limit is a "
    "timeout; every other stop, crash, resource limit or platform fault is a failed run.",
)
RUN_OUTCOME: Final = Reading(
    "run-outcome",
    "S0-4, S0-17",
    "A failure of the agent is a known outcome; no verdict, a platform fault and an agent that could not be "
    "started are unknown ones. In the composite a completed run without a verdict is not a success.",
)
RUN_CLASSIFIER: Final = Reading(
    "one-classifier",
    "S3-12..S3-22",
    "Tries are classified as for pack-score/1: what a reader may not see, what was not verified, what was "
    "never recorded and passes left out for their certificate are no runs.",
)
PACK_RUNS: Final = Reading(
    "pack-runs",
    "S3-5",
    "Only tries of a screening whose tasks are said to be the own suite are runs; benchmark pack runs, and "
    "those of which it is not said, never are.",
)
ONE_AGENT: Final = Reading(
    "one-agent",
    "S0-2, S4-1",
    "A cohort is the runs of one agent under one provenance label, over all of its revisions.",
)
RUN_READINGS: Final[tuple[Reading, ...]] = (
    RUN_STATUS,
    RUN_OUTCOME,
    RUN_CLASSIFIER,
    PACK_RUNS,
    ONE_AGENT,
)


@dataclass(frozen=True)
class Run:
    """One run. `success` None is an unknown outcome; figures are exact and None where unknown, never 0.

    `steps` are legacy execution steps; `finished_unix_s` orders runs, ties by `run_id` (S0-15).
    Refused with `MalformedInputError`: `run` (a word of another kind), `number`, `range`.
    """

    run_id: str
    agent_id: str
    task_id: str
    status: RunStatus
    success: bool | None
    latency_ms: Fraction | None
    cost_usd: Fraction | None
    steps: int | None
    finished_unix_s: int | None
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.status, RunStatus):
            raise MalformedInputError("run", f"{self.status!r:.60} is not a status of a run")
        if self.success is not None and not isinstance(self.success, bool):
            raise MalformedInputError("run", f"success is {self.success!r:.60}, not yes, no or unknown")
        for name in ("latency_ms", "cost_usd"):
            _check(name, getattr(self, name), Fraction)
        for name in ("steps", "finished_unix_s"):
            _check(name, getattr(self, name), int)

    @property
    def terminal(self) -> bool:
        """Whether the run is over (S0-15)."""
        return self.status in TERMINAL


def _check(name: str, value: object, kind: type[int] | type[Fraction]) -> None:
    if value is None:
        return
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not an exact {kind.__name__}")
    if value < 0:
        raise MalformedInputError("range", f"{name} is negative: {value}")


def cohort(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs in the order of their ids, checked to be one cohort.

    Raises `MalformedInputError`: `not-a-run`, `duplicate-run`, `foreign-agent`; and
    `MethodologyMixError("provenance-mix")` for runs under two labels.
    """
    for run in runs:
        if not isinstance(run, Run):
            raise MalformedInputError("not-a-run", f"a {type(run).__name__} is not a run")
    ordered = tuple(sorted(runs, key=lambda run: run.run_id))
    if len({run.run_id for run in ordered}) < len(ordered):
        raise MalformedInputError("duplicate-run", "a run appears twice")
    if len({run.agent_id for run in ordered}) > 1:
        raise MalformedInputError("foreign-agent", "the runs are of more than one agent")
    if len({run.provenance for run in ordered}) > 1:
        raise MethodologyMixError("provenance-mix", "results under two provenance labels are never merged")
    return ordered


def runs_of(plan: Plan, tries: Sequence[VerifiedTry], view: View) -> tuple[Run, ...]:
    """The runs that one screening adds to its agent's cohort, in the order of their slots.

    None when the screening is not of the own suite (S3-5). Latency is hand-off to end, cost the model calls
    at list price plus paid tools. Raises as `score_pack` does for tries that do not belong to the plan.
    """
    if plan.population is not Population.OWN_SUITE:
        return ()
    visible = tally(plan, tries, view).visible
    ordered = sorted(visible, key=lambda try_: (try_.task_id, try_.index))
    pairs = [(try_, classify(try_, view)) for try_ in ordered]
    return tuple(_run(try_, class_) for try_, class_ in pairs if _is_run(try_, class_))


def _is_run(try_: VerifiedTry, class_: TryClass) -> bool:
    lost = class_ in (TryClass.PLATFORM_FAULT, TryClass.NOT_EVALUABLE)
    recorded = try_.reason is not Reason.NEVER_RECORDED
    return recorded and (lost or class_ in FINISHED or class_ is TryClass.UNFINISHED)


def _run(try_: VerifiedTry, class_: TryClass) -> Run:
    cost = try_.run_date_cost_nusd
    slot = f"{try_.screening_id}/{try_.task_id}/{try_.index}/{try_.attempt}"
    return Run(
        run_id=try_.certificate_digest or slot,
        agent_id=try_.agent_id,
        task_id=try_.task_id,
        status=_status(try_.reason),
        success=_success(class_),
        latency_ms=Fraction(try_.wall_ms),
        cost_usd=None if cost is None else usd(cost),
        steps=try_.steps,
        finished_unix_s=try_.finished_unix_s,
        provenance=try_.provenance,
    )


def _status(reason: Reason) -> RunStatus:
    if reason in TIME_LIMITS:
        return RunStatus.TIMEOUT
    return RunStatus.COMPLETED if reason in RAN_TO_ITS_END else RunStatus.FAILED


def _success(class_: TryClass) -> bool | None:
    if class_ in PASSES:
        return True
    unknown = (TryClass.NO_VERDICT, TryClass.PLATFORM_FAULT, TryClass.NOT_EVALUABLE)
    return None if class_ in unknown else False
