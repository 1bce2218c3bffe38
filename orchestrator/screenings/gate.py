"""The admission gate of a pack, run for real: oracle three times, nop once, every end graded twice.

The runs are complete attempts on the worker's own path, but belong to no screening: nothing of them is
certified or scored. What they show is noted in the ledger, where it makes a grader "proven".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from orchestrator.agents import registry
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.attempts import AttemptFunction, AttemptReport
from orchestrator.ids import new_id
from orchestrator.ledger import owners
from orchestrator.ledger.records import TaskCheck, add_pack_check
from orchestrator.packs.admission import (
    LEAST_GRADINGS,
    ORACLE_RUNS,
    AdmissionReport,
    TaskEvidence,
    grader_stable,
    judge_pack,
)
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.images import TaskImages, prepare_images
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import attempt_runner, hardware_class
from orchestrator.screenings.orders import Bench, checked_digest, returning_subnets
from scoring.vocabulary import Outcome, Phase


class _Uncontrolled:
    """Control of an attempt that nobody steers."""

    def phase(self, phase: Phase) -> None:
        """Nobody watches."""

    def cancelled(self) -> bool:
        """Never."""
        return False

    def calls_until(self) -> None:
        """Nobody else can have the attempt."""


@dataclass(frozen=True)
class _Run:
    task: PackTask
    agent: RegisteredAgent
    number: int


@dataclass(frozen=True)
class _Seen:
    run: _Run
    outcome: Outcome
    gradings: tuple[str | None, ...]


def check_pack(
    installation: Installation,
    pack: Pack,
    tasks: Sequence[PackTask],
    *,
    parallel: int,
    say: Callable[[str], None],
    oracle_runs: int = ORACLE_RUNS,
) -> AdmissionReport:
    """Run the gate over `tasks`; refused tasks are not run. Notes every judged task in the ledger."""
    refused = {task.id: [one.message for one in pack.refusals(task)] for task in tasks}
    runnable = [task for task in tasks if not refused[task.id]]
    seen: list[_Seen] = []
    images: dict[str, TaskImages] = {}
    if runnable:
        images = prepare_images(pack, runnable, installation.home, say)
        seen = _run_all(installation, pack, runnable, images, parallel, oracle_runs, say)
    evidence = [_evidence(task, refused[task.id], seen) for task in tasks]
    report = judge_pack(pack.digest, evidence, oracle_runs)
    for task, found in zip(tasks, evidence, strict=True):
        if task.id in images:
            add_pack_check(installation.ledger, _note(pack, task, images[task.id], found))
    return report


def _run_all(
    installation: Installation,
    pack: Pack,
    tasks: Sequence[PackTask],
    images: dict[str, TaskImages],
    parallel: int,
    oracle_runs: int,
    say: Callable[[str], None],
) -> list[_Seen]:
    oracle, nop = (registry.resolve(installation.home, name) for name in ("oracle", "nop"))
    runs = [_Run(task, oracle, number) for number in range(1, oracle_runs + 1) for task in tasks]
    runs += [_Run(task, nop, 1) for task in tasks]
    owner = owners.register(installation.ledger)
    conditions = ScreeningConditions(hardware_class=hardware_class())
    warnings: list[str] = []
    try:
        with attempt_runner(installation, warnings) as runner, ThreadPoolExecutor(parallel) as pool:
            returning = returning_subnets(installation.ledger, runner)

            def one(run: _Run) -> _Seen:
                bench = Bench(installation, pack, run.agent, conditions, images)
                report = _attempt(returning, bench, run, owner.id)
                end = f"{report.decision.outcome.value} ({report.decision.reason.value})"
                say(f"{run.agent.revision.name} {run.number}  {run.task.id}  {end}")
                return _Seen(run, report.decision.outcome, report.gradings)

            return list(pool.map(one, runs))
    finally:
        owners.retire(installation.ledger, owner)
        for line in warnings:
            say(f"warning: {line}")


def _attempt(runner: AttemptFunction, bench: Bench, run: _Run, owner_id: str) -> AttemptReport:
    order = bench.build(
        run.task,
        screening_id=new_id(),
        slot_id=new_id(),
        attempt_id=new_id(),
        token=1,
        attempt=1,
        index=run.number,
        owner_id=owner_id,
        live_label=f"owner/{owner_id}",
        gradings=LEAST_GRADINGS,
    )
    return runner(order, _Uncontrolled())


def _evidence(task: PackTask, refusals: Sequence[str], seen: Sequence[_Seen]) -> TaskEvidence:
    mine = [one for one in seen if one.run.task is task]
    graded = [one.gradings for one in mine if one.gradings]
    # Every end state must be graded alike twice; the first that is not stands for the task.
    unstable = [one for one in graded if not grader_stable(one)]
    return TaskEvidence(
        task_id=task.id,
        digest_ok=task.task.digest == task.record_digest,
        refusals=refusals,
        oracle=[one.outcome for one in mine if one.run.agent.revision.kind == "oracle"],
        nop=[one.outcome for one in mine if one.run.agent.revision.kind == "nop"],
        gradings=(unstable or graded or [()])[0],
    )


def _note(pack: Pack, task: PackTask, images: TaskImages, found: TaskEvidence) -> TaskCheck:
    return TaskCheck(
        pack_digest=pack.digest,
        task_id=task.id,
        task_digest=checked_digest(task, images),
        agent_image=images.agent,
        grader_image=images.grader,
        oracle_runs=len(found.oracle),
        oracle_passes=sum(outcome is Outcome.PASSED for outcome in found.oracle),
        nop_runs=len(found.nop),
        nop_fails=sum(outcome is Outcome.FAILED for outcome in found.nop),
        stable=grader_stable(found.gradings),
    )
