"""One attempt from prepare to record: the function behind the entry point `assize.attempt`.

Phases: prepare and agent (`workers.attempt.phases`), carry (`workers.capture`), grade
(`workers.grading`), record (evidence sealed, observations classified). The runner holds no signing key,
no database and no memory of other attempts; it is safe to call from many threads.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from orchestrator import host_abilities
from orchestrator.attempts import (
    AttemptCancelledError,
    AttemptControl,
    AttemptOrder,
    AttemptReport,
    PhaseTime,
)
from orchestrator.evidence.archive import open_store
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import ManifestBuilder
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import Decision, decide
from orchestrator.observations import Observations, VerdictProblem
from scoring.vocabulary import Phase
from workers.adapters.launch import OUT
from workers.attempt import evidence
from workers.attempt.exhibits import Exhibits
from workers.attempt.fitness import lacking
from workers.attempt.phases import AgentPhase, run_agent_phase
from workers.attempt.report import sandbox_report
from workers.capture.carry import Carry, collect
from workers.capture.folder import left_in
from workers.capture.originals import Originals
from workers.capture.source import Source, source_of
from workers.errors import (
    ArchiveFormError,
    CarryOverflowError,
    ContainerGoneError,
    EngineCallError,
    PathRefusedError,
    UnstartableError,
    WorkerError,
)
from workers.grading.grade import Graded, GradeInput, Started, grade, start_grader
from workers.grading.verdict import PassRule
from workers.relay import sockets
from workers.relay.hub import RelayHub, forget_lanes
from workers.sandbox.client import translated
from workers.sandbox.container import Container
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.reaper import ATTEMPT_LABEL, HOME_LABEL, OWNER_LABEL, Reaped, reap
from workers.sandbox.sidecars import Sidecars
from workers.sandbox.station import Station
from workers.sandbox.tars import Owner

_NOBODY: Final = "owner/unknown"
_ENGINE_FACTS: Final = (
    "ServerVersion",
    "KernelVersion",
    "Driver",
    "CgroupVersion",
    "CgroupDriver",
    "Architecture",
)
_REFERENCE_LIMITS: Final = Limits(64 << 20, 1000, 64, 1)


class _Clockwork:
    """Phase durations on the monotonic clock."""

    def __init__(self) -> None:
        self._marks: list[tuple[Phase, float]] = []

    def enter(self, phase: Phase) -> None:
        self._marks.append((phase, time.monotonic()))

    def times(self) -> tuple[PhaseTime, ...]:
        ends = [*(at for _, at in self._marks[1:]), time.monotonic()]
        return tuple(
            PhaseTime(phase, int((end - at) * 1000))
            for (phase, at), end in zip(self._marks, ends, strict=True)
        )


class AttemptRunner:
    """Runs attempts on the Docker engine of this host; call `close` at the end."""

    def __init__(self, host: str | None = None) -> None:
        self.station = Station(host, ATTEMPT_LABEL)
        self.originals = Originals(self._reference)
        self.hub = RelayHub()
        self._engine_facts: Mapping[str, Any] | None = None
        self._abilities: Mapping[str, Any] | None = None
        self._asking = threading.Lock()

    def _own(self, home: str, owner: str) -> None:
        """Mark what is made beside the attempts' own containers."""
        self.station.engine.owner_labels = {HOME_LABEL: home, ATTEMPT_LABEL: owner}

    def unfit(
        self, home: str, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Why an agent cannot be started in a task's image or use its servers; None if it can.

        Raises `EngineCallError` when that cannot be told.
        """
        self._own(home, _NOBODY)
        return lacking(self.station.probe, agent, image_id, mcp_servers)

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Run one attempt; raises `AttemptCancelledError` once its sandbox is gone after a cancel."""
        self._own(order.labels.get(HOME_LABEL, ""), order.labels.get(OWNER_LABEL, _NOBODY))
        self.abilities(order.agent_image)
        return _Attempt(self, order, control).run()

    def ready(self) -> bool:
        """Whether this host's engine answers now."""
        return self.station.engine.answers()

    def reap(self, home: str, is_live: Callable[[str], bool]) -> Reaped:
        """Remove what dead workers of this home left; `is_live` answers for an `assize.attempt` label.

        The folders of their relays' sockets go with it, whatever home they belonged to.
        """
        sockets.reap()
        return reap(self.station.engine, home, is_live)

    def settle(self) -> list[str]:
        """Wait until every finished container is removed; returns what could not be."""
        return self.station.disposer.drain()

    def close(self) -> list[str]:
        """Wait for removals, close streams; returns what could not be removed (the reaper will)."""
        self.originals.close()
        self.hub.close()
        return self.station.close()

    def engine_facts(self) -> Mapping[str, Any]:
        """Engine version and configuration for the sandbox report (asked once)."""
        if self._engine_facts is None:
            info = self.station.engine.info()
            keys = (
                "ServerVersion",
                "KernelVersion",
                "Driver",
                "CgroupVersion",
                "CgroupDriver",
                "Architecture",
            )
            facts = {key: str(info.get(key)) for key in keys}
            self._engine_facts = {**facts, "SecurityOptions": list(info.get("SecurityOptions") or [])}
        return self._engine_facts

    def abilities(self, image_id: str) -> Mapping[str, Any]:
        """What this host and engine can enforce: asked once, with the first image, before any agent runs."""
        with self._asking, suppress(EngineCallError):  # an engine in trouble is told where it matters
            if self._abilities is None:
                with translated("probe"):
                    seen = host_abilities.observe(self.station.engine.api, image_id)
                self._abilities = host_abilities.as_data(host_abilities.judge(seen))
        return self._abilities or {}

    def _reference(self, image_id: str) -> Container:
        labels = {**self.station.engine.owner_labels, "assize.role": "reference"}
        body = create_body(
            image_id,
            _REFERENCE_LIMITS,
            runtime="runc",
            grader=False,
            labels=labels,
            volumes={},
            workdir=None,
            engine_network=False,
        )
        name = f"assize-reference-{image_id[7:19]}-{time.monotonic_ns()}"
        return Container.create(self.station.engine, self.station.watch, name, body)


class _Attempt:
    """The state of one run; every method is one step."""

    def __init__(self, runner: AttemptRunner, order: AttemptOrder, control: AttemptControl) -> None:
        self.runner = runner
        self.station = runner.station
        self.order = order
        self.control = control
        self.clock = _Clockwork()
        self.facts: dict[str, Any] = {
            "grader_proven": order.grader_proven,
            "suspect_elsewhere": order.suspect_elsewhere,
        }
        self.agent = AgentPhase()
        self.source: Source | None = None
        self.first: Future[Started] | None = None
        self.carry: Carry | None = None
        self.out: Mapping[str, bytes] = {}
        self.exhibits = Exhibits()
        self.graded: Graded | None = None
        self.gradings: list[str | None] = []
        self.snapshot: str | None = None
        self.spool = EvidenceStore(order.evidence_root).root / "tmp" / f"carry-{secrets.token_hex(16)}"

    def run(self) -> AttemptReport:
        try:
            return self._run()
        finally:
            with suppress(OSError):  # never made, or the store is gone
                self.spool.unlink()

    def _run(self) -> AttemptReport:
        started_unix_ms, started = time.time_ns() // 1_000_000, time.monotonic()
        self._enter(Phase.PREPARE)
        builder = self._open_evidence()
        if builder is not None:
            try:
                self._work()
            finally:
                self._dispose()
            if self.agent.cancelled or self.control.cancelled():
                self.station.disposer.drain()
                raise AttemptCancelledError(self.order.attempt_id)
        self._enter(Phase.RECORD)
        self._settle()
        decision, digest = self._seal(builder)
        verdict = self.graded.verdict if self.graded else None
        wall_ms = int((time.monotonic() - started) * 1000)
        return AttemptReport(
            decision=decision,
            manifest_digest=digest,
            reward=verdict.reward if verdict else None,
            checks_passed=verdict.checks_passed if verdict else None,
            checks_total=verdict.checks_total if verdict else None,
            gradings=tuple(self.gradings),
            wall_ms=wall_ms,
            phases=self.clock.times(),
            handed_off_unix_ms=started_unix_ms,
            # Not the wall clock again: somebody may have set it meanwhile, and the end be before the start.
            finished_unix_ms=started_unix_ms + wall_ms,
            runtime=self.order.runtime if self.agent.container is not None else "",
            observations=self._seen().as_data(),
            spent_nusd=self._spent(),
        )

    def _enter(self, phase: Phase) -> None:
        self.clock.enter(phase)
        self.control.phase(phase)

    def _open_evidence(self) -> ManifestBuilder | None:
        """Probe the store before the agent runs: an unwritable store must not cost an agent its try."""
        store = open_store(self.order.evidence_root)
        try:
            blob = store.put_bytes(self.order.instruction.encode())
            store.share([store.path(blob.sha256)])
        except EvidenceError as error:
            self.facts["evidence_error"] = type(error).__name__
            return None
        return ManifestBuilder(store, attempt_id=self.order.attempt_id, try_id=self.order.slot_id)

    def _work(self) -> None:
        order = self.order
        self.agent = run_agent_phase(
            self.station,
            self.runner.hub,
            order,
            f"assize-{order.attempt_id}-agent",
            self.control,
            lambda: self._enter(Phase.AGENT),
            self._start_first_grader,
        )
        self.facts.update(self.agent.facts)
        if self.agent.cancelled or not self.facts.get("agent_started"):
            return
        self._enter(Phase.GRADE)
        if self.facts.get("agent_death") is not None or self.facts.get("engine_error"):
            return
        if self.agent.over():
            self._collect()
        else:
            self._collect_and_grade()

    def _start_first_grader(self) -> None:
        """The verifier's container comes up, empty, while the agent's is killed and its files are read."""
        if self.order.grading == "fresh":
            self.first = self.station.pool.submit(start_grader, self.station, self._grade_input(1))

    def _collect_and_grade(self) -> None:
        self._collect()
        in_place = self.order.grading == "in_place"
        if self.carry is None or (in_place and self.snapshot is None):
            return
        first, self.first = self.first, None
        carry = self.carry
        if in_place:
            carry = replace(carry, tar_body_bytes=0, deleted=[])
        for number in range(1, self.order.gradings + 1):
            task = self._grade_input(number)
            begin = partial(start_grader, self.station, task) if number > 1 or first is None else first.result
            graded = grade(self.station, task, carry, begin, self.control.cancelled)
            self.gradings.append(graded.verdict.reward)
            if number == 1:
                self.graded = graded
                self._note_grade(graded)

    def _collect(self) -> None:
        container, order = self.agent.container, self.order
        if container is None:
            return
        originals = self.runner.originals
        self.source = source_of(
            container,
            partial(originals.of, order.agent_image),
            partial(originals.was_folder, order.agent_image),
            self.agent.space.folders() if self.agent.space else {},
        )
        try:
            self.carry = collect(
                self.source,
                artifacts=order.artifacts,
                whole_change=not order.separate and order.grading == "fresh",
                workdir=self.agent.workdir,
                image_config=self.station.engine.image_config(order.agent_image),
                owner=Owner(0, 0),
                cap_bytes=order.caps.artifact_bytes,
                spool=self.spool,
            )
            self.out = left_in(self.source, OUT, self.carry.changes)
            self.exhibits = Exhibits.collect(order, self.source, self.carry, self.out)
            if order.grading == "in_place" and not self.agent.over():
                if not container.has_plain_users():
                    raise UnstartableError("the files of users and groups are no regular files")
                self.snapshot = container.commit("assize-snapshot", order.labels)
        except UnstartableError:
            self.facts["verdict_problem"] = VerdictProblem.MISSING
        except (CarryOverflowError, PathRefusedError):
            self.facts["artifact_overflow"] = True
        except OSError as error:  # the spool: our own disk
            self.facts["evidence_error"] = type(error).__name__
        except ContainerGoneError:
            self.facts["engine_error"], self.facts["engine_error_phase"] = "ContainerGone", "grade"
        except (ArchiveFormError, EngineCallError) as error:
            self.facts["engine_error"], self.facts["engine_error_phase"] = type(error).__name__, "grade"

    def _grade_input(self, number: int) -> GradeInput:
        order = self.order
        return GradeInput(
            order=order,
            snapshot=self.snapshot,
            test_files=order.test_files,
            rule=PassRule(order.reward_key, Decimal(order.reward_at_least), most=Decimal(order.reward_max)),
            labels={**order.labels, "assize.role": "grader"},
            name=f"assize-{order.attempt_id}-grader-{number}",
        )

    def _note_grade(self, graded: Graded) -> None:
        verdict = graded.verdict
        self.facts.update(
            grader_image_missing=graded.image_missing,
            grader_start_error=graded.start_error,
            grader_started=graded.started,
            grader_clock=graded.clock,
            grader_clock_value=graded.clock_value,
            grader_exit_code=graded.exit_code,
            grader_death=graded.death,
            grader_host_oom=graded.host_oom,
            reward=verdict.reward,
            reward_passes=verdict.passes,
            verdict_problem=verdict.problem,
        )
        if graded.engine_error is not None:
            self.facts.update(engine_error=graded.engine_error, engine_error_phase="grade")

    def _dispose(self) -> None:
        station, snapshot, unused = self.station, self.snapshot, self.first
        if unused is not None and unused.exception() is None:
            station.dispose(unused.result().container)
        self._dispose_sandbox()
        if self.agent.relayed is not None:
            self.agent.relayed.end(station)
        if self.agent.sidecars is not None:
            self._dispose_services(self.agent.sidecars)
        elif self.agent.relayed is not None:
            self.agent.relayed.dispose()
        if snapshot is not None:
            station.disposer.submit(lambda: station.engine.remove_image(snapshot))

    def _dispose_services(self, sidecars: Sidecars) -> None:
        """The pod, the services and their network, now: the subnet is given back when the attempt returns."""
        container, pod = self.agent.container, self.agent.pod

        def remove() -> None:
            for one in (container, pod):
                if one is not None:
                    one.remove()
            sidecars.remove()

        try:
            remove()
        except WorkerError:
            self.station.disposer.submit(remove)

    def _dispose_sandbox(self) -> None:
        """The agent's container first, then what it had mounted."""
        container, space = self.agent.container, self.agent.space

        def remove() -> None:
            if container is not None:
                container.remove()
            if space is not None:
                space.remove()

        if container is not None or space is not None:
            self.station.disposer.submit(remove)

    def _settle(self) -> None:
        """Wait until the lane is summed up; only then is known how the agent's last call ended."""
        relayed = self.agent.relayed
        if relayed is not None:
            relayed.settle()
            if self.facts.get("agent_started"):
                self.facts.update(relayed.facts())

    def _spent(self) -> int | None:
        """What the attempt cost; its working files go once they are evidence."""
        relayed, order = self.agent.relayed, self.order
        if relayed is None or order.relay is None:
            return None
        spent_nusd = relayed.spent_nusd()
        if self.facts.get("evidence_error") is None:
            forget_lanes(order.relay.state_root, order.attempt_id)
        return spent_nusd

    def _seen(self) -> Observations:
        return Observations(**self.facts)

    def _seal(self, builder: ManifestBuilder | None) -> tuple[Decision, str | None]:
        """Write the evidence with the decision in it; a store that fails now changes the decision."""
        decision = decide(self._seen())
        if builder is None:
            return decision, None
        try:
            evidence.add_agent(builder, self.agent)
            if self.agent.shell is not None:
                evidence.add_shell(builder, self.agent.shell)
            if self.agent.sidecars is not None:
                evidence.add_services(builder, self.agent.sidecars)
            if self.carry is not None:
                evidence.add_carry(builder, self.carry, self._originals(self.carry))
            evidence.add_out(builder, self.out)
            self.exhibits.add(builder, self.agent)
            if self.graded is not None:
                evidence.add_grade(builder, self.order, self.graded)
            if self.agent.relayed is not None:
                evidence.add_relayed(builder, self.agent.relayed, self.order)
            report = sandbox_report(
                self.order,
                self.agent,
                self.clock.times(),
                engine=self._engine_facts(),
                abilities=self.runner.abilities(self.order.agent_image),
            )
            evidence.add_report(builder, report, self._seen(), decision)
            return decision, builder.seal()
        except (EvidenceError, EngineCallError, OSError) as error:
            # Without evidence nobody is convicted: the rules put this before whatever the agent did.
            self.facts["evidence_error"] = type(error).__name__
        return decide(self._seen()), None

    def _originals(self, carry: Carry) -> Mapping[str, bytes]:
        """For the readable diff only: a verdict is not lost because they cannot be had."""
        changed = [path for kind, path in carry.changes if kind == 0 and path in carry.files]
        try:
            return self.source.originals(changed) if self.source is not None else {}
        except (WorkerError, OSError):
            return {}

    def _engine_facts(self) -> dict[str, Any]:
        """An engine that is gone by now says nothing; that is no trouble of the evidence store."""
        try:
            return dict(self.runner.engine_facts())
        except EngineCallError as error:
            return {"unknown": f"{error.call}:{error.kind}"}
