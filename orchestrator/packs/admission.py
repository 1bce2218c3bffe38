"""The admission gate of a pack, as a pure judgement over runs done elsewhere (reference/packs.md section 8).

A task is admitted when its files are the pinned ones, it can be run faithfully, the reference solution
passes every time, an agent that does nothing fails, and grading one end state again gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal

from scoring.vocabulary import Outcome

ORACLE_RUNS: Final = 3
LEAST_GRADINGS: Final = 2


@dataclass(frozen=True)
class TaskEvidence:
    """What was observed for one task.

    `oracle` and `nop` are the outcomes of complete attempts of the reference solution and of the agent
    that does nothing. `gradings` are the grader's numbers, as decimal strings, for one and the same end
    state graded repeatedly; None stands for a grading without a verdict. `refusals` are the messages of
    `Pack.refusals`, `digest_ok` says that the task's record digest is the pinned one.
    """

    task_id: str
    digest_ok: bool
    refusals: Sequence[str]
    oracle: Sequence[Outcome]
    nop: Sequence[Outcome]
    gradings: Sequence[str | None]


@dataclass(frozen=True)
class TaskAdmission:
    """The judgement on one task, with a sentence for every reason to refuse it."""

    task_id: str
    oracle_passes: int
    oracle_runs: int
    nop_fails: bool
    grader_stable: bool
    digest_ok: bool
    verdict: Literal["admitted", "refused"]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class AdmissionReport:
    """The judgement on a pack: admitted only if every task is.

    `do_nothing_passes` lists the tasks that an agent passes by doing nothing, in pack order.
    """

    pack_digest: str
    tasks: tuple[TaskAdmission, ...]
    do_nothing_passes: tuple[str, ...]

    @property
    def admitted(self) -> bool:
        """Whether the pack may be used for published screenings."""
        return bool(self.tasks) and all(task.verdict == "admitted" for task in self.tasks)


def _number(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def grader_stable(gradings: Sequence[str | None]) -> bool:
    """Whether at least two gradings were made, each with a finite number, all equal in value."""
    numbers = [_number(text) for text in gradings]
    return len(numbers) >= LEAST_GRADINGS and None not in numbers and len(set(numbers)) == 1


def _oracle_reasons(outcomes: Sequence[Outcome], runs: int) -> list[str]:
    passes = sum(outcome is Outcome.PASSED for outcome in outcomes)
    if len(outcomes) < runs:
        return [f"the reference solution ran {len(outcomes)} of {runs} times"]
    if passes == len(outcomes):
        return []
    others = sorted({str(outcome) for outcome in outcomes if outcome is not Outcome.PASSED})
    return [f"the reference solution passed {passes} of {len(outcomes)} times (else {', '.join(others)})"]


def _nop_reasons(outcomes: Sequence[Outcome]) -> list[str]:
    if not outcomes:
        return ["an agent that does nothing was not run"]
    if Outcome.PASSED in outcomes:
        return ["an agent that does nothing passes"]
    if any(outcome is not Outcome.FAILED for outcome in outcomes):
        return ["a run of the agent that does nothing ended without a verdict on it"]
    return []


def judge_task(seen: TaskEvidence, oracle_runs: int = ORACLE_RUNS) -> TaskAdmission:
    """The judgement on one task; what was not shown counts against it."""
    stable = grader_stable(seen.gradings)
    nop_reasons = _nop_reasons(seen.nop)
    reasons = [f"cannot be run faithfully: {message}" for message in seen.refusals]
    if not seen.digest_ok:
        reasons.append("its files are not the pinned ones")
    reasons += _oracle_reasons(seen.oracle, oracle_runs)
    reasons += nop_reasons
    if not stable:
        shown = ", ".join("no verdict" if text is None else text for text in seen.gradings) or "none"
        reasons.append(f"grading one end state again does not give the same number ({shown})")
    return TaskAdmission(
        task_id=seen.task_id,
        oracle_passes=sum(outcome is Outcome.PASSED for outcome in seen.oracle),
        oracle_runs=len(seen.oracle),
        nop_fails=not nop_reasons,
        grader_stable=stable,
        digest_ok=seen.digest_ok,
        verdict="refused" if reasons else "admitted",
        reasons=tuple(reasons),
    )


def judge_pack(
    pack_digest: str, evidence: Iterable[TaskEvidence], oracle_runs: int = ORACLE_RUNS
) -> AdmissionReport:
    """The judgement on a pack; `evidence` in pack order, one entry per task."""
    seen = list(evidence)
    return AdmissionReport(
        pack_digest=pack_digest,
        tasks=tuple(judge_task(item, oracle_runs) for item in seen),
        do_nothing_passes=tuple(item.task_id for item in seen if Outcome.PASSED in item.nop),
    )
