"""Launch or resume screenings: verify, prepare, plan, open, run, certify, close."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.agents.registry import RegisteredAgent
from orchestrator.engine.base import Engine, Progress, RunResult, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.errors import UsageError
from orchestrator.evidence.errors import EvidenceError
from orchestrator.host_abilities import require_conditions
from orchestrator.ledger import queries, subnets
from orchestrator.ledger.screenings import NewScreening
from orchestrator.ledger.states import OPEN_SCREENINGS, EngineName
from orchestrator.ledger.transitions import hand_to, plan
from orchestrator.packs import semantics
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.planning.classes import queue_of
from orchestrator.planning.conditions import ScreeningConditions, screening_identity
from orchestrator.planning.plan import PlannedTask, new_seed, plan_slots
from orchestrator.screenings.attempts import Runner, liveness_of, load_runner, with_bundles
from orchestrator.screenings.callbacks import callbacks_for
from orchestrator.screenings.certify import Certifier, UncertifiedError
from orchestrator.screenings.images import prepare_images
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.opening import Sponsors, comparability_of
from orchestrator.screenings.orders import Bench, limit_ms, plain_agent
from orchestrator.screenings.private import PrivateRecord
from orchestrator.screenings.relaying import (
    Metering,
    conditions_for,
    forget_left,
    metering_for,
    providers_of,
)
from sandbox_images.engine import connect

WHO = "operator"
_GIB = 1 << 30
_MIB = 1 << 20
_ENGINE_TIMEOUT_S = 20


@dataclass(frozen=True)
class Launch:
    """One screening that is planned or resumed; `state` is that of the ledger before the run.

    The `certifier` of a private one signs nothing.
    """

    screening_id: str
    bench: Bench
    certifier: Certifier | PrivateRecord
    state: str
    resumed: bool

    @property
    def private(self) -> bool:
        """Whether it has evidence only."""
        return self.bench.conditions.visibility == "private"


def hardware_class() -> str:
    """What this host offers a try, in whole cores and GiB of memory (S4-28)."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"cpu{os.cpu_count() or 1}-mem{round(memory / _GIB)}g"


def chosen_tasks(pack: Pack, wanted: Sequence[str]) -> list[PackTask]:
    """The tasks to run: all, or those named (whole id, unique prefix or last part of it)."""
    if not wanted:
        return list(pack.tasks)
    chosen = []
    for name in wanted:
        exact = [task for task in pack.tasks if name in (task.id, task.id.rpartition("/")[2])]
        found = exact or [task for task in pack.tasks if task.id.startswith(name)]
        if len(found) != 1:
            listed = ", ".join(task.id for task in (found or pack.tasks)[:8])
            what = "no task" if not found else "several tasks"
            raise UsageError(f"pack {pack.label} has {what} called {name}", hint=f"its tasks: {listed}")
        if found[0] not in chosen:
            chosen.append(found[0])
    return [task for task in pack.tasks if task in chosen]


def require_runnable(pack: Pack, tasks: Sequence[PackTask]) -> None:
    """Refuse before dispatch whatever cannot be run faithfully, by task and reason; never downgrade."""
    lines = [f"{task.id}: {refusal.message}" for task in tasks for refusal in pack.refusals(task)]
    if lines:
        shown = "\n  ".join(lines[:20]) + (f"\n  and {len(lines) - 20} more" if len(lines) > 20 else "")
        raise UsageError(
            f"pack {pack.label} cannot be run faithfully here:\n  {shown}",
            hint="leave such tasks out with --task, or waive in the pack's [deviations] what it may waive",
        )


def require_host(pack: Pack, tasks: Sequence[PackTask], conditions: ScreeningConditions) -> None:
    """Refuse a container runtime or a disk that this host cannot give; neither is ever replaced."""
    disk = conditions.disk.mode
    in_place = [task.id for task in tasks if pack.grading(task) == "in_place"]
    if disk != "writable" and in_place:
        raise UsageError(
            f"tasks that are graded in place need a writable disk: {', '.join(in_place[:8])}",
            hint="leave them out with --task, or screen without --disk",
        )
    beside = [task.id for task in tasks if semantics.compose(task.task).services]
    if beside and (disk != "writable" or conditions.runtime != "runc"):
        raise UsageError(
            f"tasks with several containers need a writable disk and runc: {', '.join(beside[:8])}",
            hint="leave them out with --task, or screen without --disk and --runtime",
        )
    if conditions.runtime == "runc" and disk == "writable":
        return  # the engine itself refuses a container that it cannot run
    client = connect(_ENGINE_TIMEOUT_S)
    try:
        require_conditions(client, conditions.runtime, disk)
    finally:
        client.close()


def launch(
    installation: Installation,
    pack: Pack,
    agents: Sequence[RegisteredAgent],
    conditions: ScreeningConditions,
    sponsors: Sponsors,
    *,
    again: bool,
    say: Callable[[str], None],
    start_window_ms: int = 0,
) -> list[Launch]:
    """Plan (or find again) one screening per agent, with its opening statement signed and stored.

    The tries of a new one begin at random instants within `start_window_ms` from now, in their order.
    """
    tasks = chosen_tasks(pack, conditions.tasks or ())
    require_runnable(pack, tasks)
    conditions = _narrowed(conditions, pack, tasks)
    require_host(pack, tasks, conditions)
    # What is refused for an agent is refused before images are built.
    terms = [_terms(installation, agent, conditions, say) for agent in agents]
    images = prepare_images(pack, tasks, installation.home, say)
    signer, issuer = installation.signer(), installation.trust_root().issuer
    benches = [
        Bench(installation, pack, agent, own, images, metering)
        for agent, (own, metering) in zip(agents, terms, strict=True)
    ]
    _require_startable(benches, tasks)
    launches = []
    for bench in benches:
        screening_id, state, resumed = _plan(
            installation, bench, tasks, sponsors, issuer, again=again, window_ms=start_window_ms
        )
        certifier: Certifier | PrivateRecord = PrivateRecord()
        if bench.conditions.visibility == "public":
            certifier = Certifier(installation, signer, issuer, bench, screening_id)
        certifier.open(sponsors)
        launches.append(Launch(screening_id, bench, certifier, state, resumed))
    return launches


def _require_startable(benches: Sequence[Bench], tasks: Sequence[PackTask]) -> None:
    """Refuse an agent that cannot be started for a task, by what it says it needs and what the image has.

    Before anything is planned: tasks that its author makes it unfit for must not leave its score quietly.
    """
    packed = [bench for bench in benches if bench.agent.revision.launch is not None]
    if not packed:
        return
    runner = load_runner()
    try:
        lines = [
            f"{one.agent.revision.label}, {line}" for one in packed for line in _unfit(one, tasks, runner)
        ]
    finally:
        runner.close()
    if lines:
        shown = "\n  ".join(lines[:20]) + (f"\n  and {len(lines) - 20} more" if len(lines) > 20 else "")
        raise UsageError(
            f"not every agent can be started for every task:\n  {shown}",
            hint="leave such tasks out with --task, so that the plan shows it",
        )


def _unfit(bench: Bench, tasks: Sequence[PackTask], runner: Runner) -> Iterator[str]:
    agent = plain_agent(bench.agent.revision, bench.metering)
    for task in tasks:
        servers = semantics.mcp_servers(task.task)
        why = runner.unfit(bench.installation.label, agent, bench.images[task.id].agent, servers)
        if why is not None:
            yield f"{task.id}: {why}"


def _terms(
    installation: Installation,
    agent: RegisteredAgent,
    conditions: ScreeningConditions,
    say: Callable[[str], None],
) -> tuple[ScreeningConditions, Metering | None]:
    """The conditions as they hold for an agent whose bundle is intact, and the terms of its model calls."""
    agent.verify_bundle()
    own = conditions_for(agent, conditions)
    return own, metering_for(installation.home, agent, own, say)


def _narrowed(conditions: ScreeningConditions, pack: Pack, tasks: Sequence[PackTask]) -> ScreeningConditions:
    names = None if len(tasks) == len(pack.tasks) else tuple(sorted(task.id for task in tasks))
    return conditions.model_copy(update={"tasks": names})


def _plan(
    installation: Installation,
    bench: Bench,
    tasks: Sequence[PackTask],
    sponsors: Sponsors,
    issuer: str,
    *,
    again: bool,
    window_ms: int,
) -> tuple[str, str, bool]:
    """(screening id, its state, whether it was there before)."""
    identity = screening_identity(
        bench.conditions,
        pack_digest=bench.pack.digest,
        agent_digest=bench.agent.digest,
        requester=sponsors.requested_by,
        funder=sponsors.funded_by,
    )
    known = queries.screenings(installation.ledger, identity=identity)
    open_ = [row for row in known if row["state"] in OPEN_SCREENINGS]
    if open_ or (known and not again):
        row = (open_ or known)[0]
        return row["id"], row["state"], True
    seed, start_ms = new_seed(), queries.now_ms(installation.ledger)
    planned = [_planned(bench, task) for task in tasks]
    revision = bench.agent.revision
    screening_id = plan(
        installation.ledger,
        NewScreening(
            identity=identity,
            pack_id=bench.pack.manifest.name,
            pack_version=bench.pack.manifest.version,
            pack_digest=bench.pack.digest,
            agent_id=revision.name,
            agent_version=revision.version,
            agent_digest=bench.agent.digest,
            conditions=bench.conditions.as_data(),
            comparability=comparability_of(bench, sponsors, issuer),
            requester=sponsors.requested_by,
            funder=sponsors.funded_by,
            seed=seed,
            window_ms=window_ms,
            slots=plan_slots(
                planned, bench.conditions.tries, seed=seed, start_ms=start_ms, window_ms=window_ms
            ),
            cap_nusd=bench.conditions.cost_cap_nusd,
            try_cap_nusd=bench.conditions.try_cap_nusd,
            providers=() if bench.metering is None else providers_of(bench.metering),
        ),
        who=WHO,
    )
    return screening_id, queries.screening(installation.ledger, screening_id)["state"], False


def _planned(bench: Bench, task: PackTask) -> PlannedTask:
    caps = bench.caps(task)
    queue = queue_of(caps.cpus_milli, caps.memory_bytes, bench.conditions.hardware_class)
    # Rounded up: what a try is promised it may use.
    return PlannedTask(task.id, limit_ms(caps), queue, caps.cpus_milli, -(-caps.memory_bytes // _MIB))


@dataclass(frozen=True)
class Outcome:
    """How a run ended: states per screening, interrupted or not, and what needs a look."""

    result: RunResult
    bundles: dict[str, Path]
    warnings: tuple[str, ...]


@contextmanager
def attempt_runner(
    installation: Installation, warnings: list[str], make: Callable[[], Runner] = load_runner
) -> Iterator[Runner]:
    """The runner of this host, after everything that dead workers of this home left was removed."""
    runner = make()
    try:
        runner.reap(installation.label, with_bundles(liveness_of(installation.ledger), installation.home))
        subnets.sweep(installation.ledger)
        yield runner
    finally:
        warnings.extend(f"not removed: {line}" for line in runner.close())


def run(
    installation: Installation,
    launches: Sequence[Launch],
    *,
    parallel: int,
    progress: Callable[[Progress], None],
    guard: Callable[[Engine], Any],
    settings: Settings | None = None,
    make_runner: Callable[[], Runner] = load_runner,
) -> Outcome:
    """Run every open slot, certify what ends, close what is complete and write the bundles.

    `guard(engine)` is a context manager that connects signals to the engine.
    """
    by_id = {one.screening_id: one for one in launches}
    warnings: list[str] = []
    with attempt_runner(installation, warnings, make_runner) as runner:
        callbacks = replace(
            callbacks_for(installation, runner, lambda held: by_id[held.screening_id].bench.order(held)),
            certify=lambda attempt_id: _certify(installation, by_id, attempt_id, warnings),
            progress=progress,
        )
        for one in launches:
            hand_to(installation.ledger, one.screening_id, EngineName.LOCAL, who=WHO)
        engine = LocalEngine(installation.ledger, callbacks, settings, who=WHO)
        with guard(engine):
            result = engine.run([one.screening_id for one in launches], parallel)
    return concluded(launches, result, warnings)


def concluded(launches: Sequence[Launch], result: RunResult, warnings: Sequence[str]) -> Outcome:
    """After a run, whatever engine ran it: what is complete is closed, and its bundle written."""
    bundles = {}
    for one in launches:
        if result.states[one.screening_id] not in OPEN_SCREENINGS:
            path = one.certifier.close()
            if path is not None:
                bundles[one.screening_id] = path
    return Outcome(result, bundles, tuple(dict.fromkeys(warnings)))


def _certify(
    installation: Installation, by_id: dict[str, Launch], attempt_id: str, warnings: list[str]
) -> None:
    """Certify now, or say why not: the attempt stays certifiable and the next run tries again."""
    view = queries.show_attempt(installation.ledger, attempt_id)
    try:
        by_id[view.row["screening_id"]].certifier.certify(attempt_id)
    except (UncertifiedError, EvidenceError) as error:
        warnings.append(f"not certified: {error.message}")
    else:
        # The relay's file of a private attempt that left no evidence is all that there is of it.
        if view.manifest_digest is not None or not by_id[view.row["screening_id"]].private:
            forget_left(installation.home, attempt_id)
