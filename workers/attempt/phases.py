"""The agent's phase of one attempt: sandbox up, agent under its caps, sandbox dead, facts noted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.evidence.store import EvidenceStore
from orchestrator.observations import Clock, Death
from workers.adapters.acp.ending import AcpEnd
from workers.adapters.acp.session import Session, Talk
from workers.adapters.launch import (
    BUNDLE,
    HOME,
    OUT,
    Launch,
    Way,
    contract_environment,
    plan_launch,
)
from workers.adapters.packed import InstructionTooLongError
from workers.adapters.shell.agent import ShellEnd
from workers.attempt.fitness import UnfitError, home_bytes, require_fit
from workers.attempt.laid import agent_files
from workers.attempt.pods import lifetime_s, open_pod, services_full, sidecars_of
from workers.attempt.relayed import Relayed
from workers.attempt.shell_driver import drive_shell
from workers.attempt.starting import refusal
from workers.capture.growth import disk_guard, limits_of, written
from workers.capture.layer import OverlayLayer
from workers.errors import (
    ContainerGoneError,
    EngineCallError,
    ImageMissingError,
    SandboxMismatchError,
)
from workers.relay.errors import RelayError
from workers.relay.hub import RelayHub
from workers.sandbox.bundles import BundleMismatchError
from workers.sandbox.container import Container
from workers.sandbox.counters import Counters, read_counters
from workers.sandbox.execute import Command, ExecResult, StreamEnd, run_command
from workers.sandbox.kernel_log import host_oom
from workers.sandbox.loop import LoopError
from workers.sandbox.pod import Pod, PodError
from workers.sandbox.preflight import passive_preflight
from workers.sandbox.prepared import Prepared
from workers.sandbox.profile import Limits, Writable, create_body, created_facts
from workers.sandbox.proofs import prove
from workers.sandbox.runtime_crash import runtime_crashed
from workers.sandbox.sidecars import SidecarError, Sidecars
from workers.sandbox.space import Space, SpaceError
from workers.sandbox.station import Station
from workers.sandbox.tars import Owner
from workers.sandbox.users import UnknownUserError

_LIFETIME_GRACE_S: Final = 300
_KILLED: Final = 137
_TOLD_S: Final = 3.0
"""How long the event stream may take to tell that the engine is gone, once a connection broke."""


@dataclass
class AgentPhase:
    """What the prepare and agent phases showed; `container` is stopped, or None if it never existed.

    `image` is the prepared image over the pinned one that the container was created from. `relayed` is the
    metered side of an agent that calls models, `shell` what the worker did for a bare model, `acp` what
    was said with an agent that is talked to; `preflight`
    is what the sandbox's network was seen to have before the agent was in it. `space` is where it could
    write under a read-only root, `written` the bytes and files that it did write; `proof` is what the host
    showed of limits and runtime before the agent had control, `events` what the engine told of the sandbox.
    `sidecars` are the services of the task; `bare_pod` stands among them for an agent that calls no model.
    `trouble` says in words why a service did not come up, or the agent cannot be started.
    """

    container: Container | None = None
    owner: Owner = field(default_factory=lambda: Owner(0, 0))
    image: str | None = None
    workdir: str = "/"
    facts: dict[str, Any] = field(default_factory=dict)
    output: ExecResult | None = None
    argv: tuple[str, ...] | None = None
    counters: Counters = field(default_factory=lambda: Counters(None, None, None))
    state: Mapping[str, Any] | None = None
    cancelled: bool = False
    relayed: Relayed | None = None
    shell: ShellEnd | None = None
    acp: AcpEnd | None = None
    preflight: Mapping[str, Any] | None = None
    relay_ended: bool = False
    space: Space | None = None
    written: tuple[int, int] | None = None
    events: tuple[str, ...] = ()
    proof: Mapping[str, Any] | None = None
    sidecars: Sidecars | None = None
    bare_pod: Pod | None = None
    trouble: str | None = None

    @property
    def pod(self) -> Pod | None:
        """The pod that the sandbox stands in; None for a sandbox with loopback only."""
        return self.bare_pod or (self.relayed.pod if self.relayed else None)

    def created(self) -> Mapping[str, Any]:
        """What the engine says it created, for the evidence: image, user, runtime and every limit."""
        if self.container is None:
            return {}
        return created_facts(self.container.created)

    def over(self) -> bool:
        """True when grading makes no sense any more: the end is already decided."""
        decided = (
            "agent_clock",
            "agent_death",
            "artifact_overflow",
            "engine_error",
            "start_error",
            "image_missing",
            "image_mismatch",
        )
        ended = any(self.facts.get(name) for name in decided)
        return ended or self.relay_ended or not self.facts.get("agent_started")


def _open_space(
    station: Station, order: AttemptOrder, name: str, phase: AgentPhase, owner: Owner
) -> Writable | None:
    """What the agent may write under a read-only root; None where the root itself is writable."""
    if order.disk.mode == "writable":
        return None
    phase.space = space = Space.open(
        station,
        order.disk,
        name=name,
        image=order.agent_image,
        labels=order.labels,
        workdir=phase.workdir,
        out=OUT,
        home=HOME,
        home_bytes=home_bytes(order),
        owner=owner,
        lifetime_s=(order.caps.agent_wall_ms + order.caps.grade_wall_ms) // 1000 + _LIFETIME_GRACE_S,
        scratch=EvidenceStore(order.evidence_root).root / "tmp",
    )
    if space.holder is None or OverlayLayer.of(space.holder.created) is None:
        raise SpaceError("this worker cannot read the engine's own folders, which a read-only root needs")
    return Writable(space.mounts(), space.temporary)


def _start_services(
    station: Station, order: AttemptOrder, phase: AgentPhase, cancelled: Callable[[], bool]
) -> None:
    phase.sidecars = sidecars_of(station, order)
    if phase.sidecars is not None:
        phase.sidecars.start(lifetime_s=lifetime_s(order), cancelled=cancelled)


def _open_pod(
    station: Station,
    hub: RelayHub,
    order: AttemptOrder,
    phase: AgentPhase,
    control: AttemptControl,
    *,
    driven: bool,
) -> None:
    ground = phase.sidecars.ground if phase.sidecars else None
    if order.relay is not None:
        phase.relayed = Relayed.open(
            hub,
            station,
            order,
            order.relay,
            pod=not driven,
            ground=ground,
            calls_until=control.calls_until,
        )
    if order.pod is not None and phase.pod is None:
        phase.bare_pod = open_pod(station, order, image=order.pod.image, socket_dir=None, ground=ground)


def _create(
    station: Station,
    order: AttemptOrder,
    phase: AgentPhase,
    create: Callable[[], tuple[Container, Prepared]],
) -> tuple[Container, Prepared]:
    """Make the sandbox with its bundle; one that somebody removed meanwhile is filled once more.

    The engine makes a missing volume again, empty, and the agent would seem not to be there. A volume that a
    container has cannot be removed. Raises `BundleMismatchError` when it is gone the second time too.
    """
    phase.container, used = create()
    if order.bundle_digest is None or station.bundles.holds(order.bundle_digest):
        return phase.container, used
    phase.container.remove()
    station.bundles.ensure(order.bundle_dir, order.bundle_digest, order.agent_image)
    phase.container, used = create()
    if not station.bundles.holds(order.bundle_digest):
        phase.container.remove()
        phase.container = None
        station.bundles.discard(order.bundle_digest)
        raise BundleMismatchError("the bundle's volume was removed before its sandbox was made")
    return phase.container, used


def _prepare(
    station: Station,
    hub: RelayHub,
    order: AttemptOrder,
    name: str,
    phase: AgentPhase,
    control: AttemptControl,
) -> Launch:
    require_fit(station.probe, order)
    launch = plan_launch(order)
    # First what may take long: the clock of the lane starts when it opens.
    volume = station.bundles.ensure(order.bundle_dir, order.bundle_digest, order.agent_image)
    _start_services(station, order, phase, control.cancelled)
    _open_pod(station, hub, order, phase, control, driven=launch.driven)
    caps = order.caps
    limits = Limits(
        caps.memory_bytes, caps.cpus_milli, caps.pids, caps.agent_wall_ms // 1000 + _LIFETIME_GRACE_S
    )
    config = station.engine.image_config(order.agent_image)

    def prepared() -> Prepared:
        key = ("agent", order.task_digest, launch.solution)
        return station.prepared.ensure(
            order.agent_image, order.agent_user, key, lambda owner: agent_files(order, launch, owner)
        )

    phase.workdir = order.workdir or str(config.get("WorkingDir") or "/")
    writable = _open_space(station, order, name, phase, prepared().owner)

    def body(image_id: str) -> dict[str, Any]:
        return create_body(
            image_id,
            limits,
            runtime=order.runtime,
            grader=False,
            writable=writable,
            labels={**order.labels, "assize.role": "agent"},
            volumes={volume: BUNDLE} if volume else {},
            workdir=order.workdir,
            network=phase.pod.network_mode if phase.pod else "none",
            file_bytes=limits_of(order.disk)[0],
        )

    container, used = _create(station, order, phase, lambda: station.create(name, prepared, body))
    phase.owner, phase.image = used.owner, used.id
    container.start()
    pid = container.pid()
    phase.proof = prove(container.id, pid, container.body)
    phase.preflight = passive_preflight(pid) if phase.pod is None else phase.pod.preflight
    if phase.relayed is not None:
        phase.relayed.keep()  # the agent may call before anybody looks
    return launch


def _session(order: AttemptOrder, launch: Launch, workdir: str) -> Session | None:
    """The talk with an agent that is talked to; None for one that only runs."""
    if launch.permission is None:
        return None
    return Session(Talk((order.instruction,), workdir, launch.permission, order.mcp_servers))


def _run_agent(
    station: Station, order: AttemptOrder, phase: AgentPhase, cancelled: Callable[[], bool]
) -> None:
    wall_s = order.caps.agent_wall_ms / 1000
    container, relayed = phase.container, phase.relayed
    way = Way() if relayed is None else Way(relayed.url, relayed.lane.token)
    launch = plan_launch(order, way, phase.workdir)
    assert container is not None and launch.argv is not None
    environment = contract_environment(order, phase.owner, phase.workdir, int(wall_s), way)
    phase.argv = launch.argv
    session = _session(order, launch, phase.workdir)
    command = Command(
        launch.argv,
        f"{phase.owner.uid}:{phase.owner.gid}",
        {**environment, **launch.environment},
        phase.workdir,
    )
    deadline = time.monotonic() + wall_s
    with disk_guard(station, container, order.disk) as guard:
        result = phase.output = run_command(
            station.engine,
            container.id,
            command,
            deadline=deadline,
            cap_bytes=order.caps.output_bytes,
            still_running=container.is_running,
            cancelled=cancelled,
            guard=guard,
            beside_full=services_full(station, order, phase.sidecars),
            relay_ends=relayed.over if relayed else lambda: False,
            dialogue=session,
        )
    phase.acp = None if session is None else session.end()
    if result.never_began and not _program_refused(phase, result):
        return
    phase.facts["agent_exit_code"] = result.exit_code
    phase.facts["agent_output_bytes"] = result.seen_bytes
    if result.end is StreamEnd.DEADLINE:
        phase.facts.update(agent_clock=Clock.WALL, agent_clock_value=order.caps.agent_wall_ms)
    elif result.end is StreamEnd.OUTPUT_CAP:
        phase.facts.update(agent_clock=Clock.OUTPUT, agent_clock_value=order.caps.output_bytes)
    elif result.end is StreamEnd.DISK_CAP:
        phase.facts["artifact_overflow"] = True
    elif result.end is StreamEnd.RELAY:
        phase.relay_ended = True
    phase.cancelled = result.end is StreamEnd.CANCELLED


def _program_refused(phase: AgentPhase, result: ExecResult) -> bool:
    """Whether a command that never began is the agent's end all the same: its program cannot be run."""
    phase.trouble, own = refusal(result.stdout)
    if not own:
        phase.facts.update(agent_started=False, start_error="exec_start:NeverBegan")
    return own


def _drive(station: Station, order: AttemptOrder, phase: AgentPhase, control: AttemptControl) -> None:
    """A bare model works the sandbox's shell; the same caps and clocks as for an agent inside."""
    assert phase.container is not None
    driven = drive_shell(
        station,
        order,
        phase.container,
        phase.relayed,
        phase.owner,
        phase.workdir,
        control,
        services_full(station, order, phase.sidecars),
    )
    phase.shell = driven.end
    phase.cancelled = driven.cancelled
    phase.relay_ended = driven.relay_ended
    phase.facts.update(driven.facts)


def _measure(order: AttemptOrder, phase: AgentPhase) -> None:
    """What the dead container wrote, before it is read; more than it may is the agent's doing."""
    container, space = phase.container, phase.space
    assert container is not None
    phase.written = written(container) if space is None else None
    if space is not None:
        if not space.intact():
            phase.facts["agent_death"] = Death.REMOVED  # whoever ended the holder took the work with it
            return
        with contextlib.suppress(OSError):
            phase.written = space.used()
    elif phase.written is not None:
        most_bytes, most_files = limits_of(order.disk)
        if phase.written[0] > most_bytes or phase.written[1] > most_files:
            phase.facts["artifact_overflow"] = True


def _end_sandbox(station: Station, order: AttemptOrder, phase: AgentPhase) -> None:
    container = phase.container
    assert container is not None
    if phase.sidecars is not None:
        phase.sidecars.note_ended()
    if phase.relayed is not None:
        phase.relayed.end(station)
    # The counters vanish with the cgroup, so they are read before the kill.
    phase.counters = read_counters(container.id)
    phase.state = container.kill()
    death = container.death(phase.state)
    phase.events = container.events()
    _end_services(phase)
    phase.facts.update(
        agent_death=death,
        agent_oom_kills=phase.counters.oom_kills,
        agent_pids_limit_hits=phase.counters.pids_limit_hits,
        agent_max_memory_bytes=phase.counters.max_memory_bytes,
    )
    if phase.state is not None:
        _measure(order, phase)
    if death is Death.SELF:
        phase.facts["agent_runtime_crash"] = runtime_crashed(
            order.runtime, phase.state, phase.counters, order.caps.memory_bytes
        )
    if death is not None or phase.facts.get("agent_exit_code") == _KILLED:
        phase.facts["agent_host_oom"] = host_oom(container.id)


def _end_services(phase: AgentPhase) -> None:
    """Kill what ran beside the sandbox: when grading begins nothing of the pod is alive."""
    if phase.sidecars is not None:
        phase.sidecars.end()
        phase.facts.update(phase.sidecars.facts())
        if phase.pod is not None:
            phase.pod.container.kill()


def _end_lost(station: Station, order: AttemptOrder, phase: AgentPhase, error: EngineCallError) -> None:
    """End a sandbox after a call about it had failed.

    An engine that broke the connection and went away took the sandbox along, whether or not it is back by now
    and lets us kill what is left of it.
    """
    with contextlib.suppress(EngineCallError):
        _end_sandbox(station, order, phase)
    broken = error.status is None and phase.container is not None and phase.container.engine_left(_TOLD_S)
    if broken and phase.facts.get("agent_death") is None:
        phase.facts["agent_death"] = Death.ENGINE_RESTART


def _note_refused(phase: AgentPhase, error: UnfitError | SidecarError | PodError) -> None:
    """What kept the agent from being started, with its reason for readers."""
    if isinstance(error, UnfitError):
        phase.facts["agent_not_startable"] = True
        phase.trouble = str(error)
    elif isinstance(error, SidecarError):
        phase.facts["start_error"] = f"Sidecar:{error.name}"
        phase.trouble = str(error)
    else:
        phase.facts["start_error"] = "preflight"
        phase.preflight = error.preflight


def run_agent_phase(
    station: Station,
    hub: RelayHub,
    order: AttemptOrder,
    name: str,
    control: AttemptControl,
    entered: Callable[[], None],
    finished: Callable[[], None],
) -> AgentPhase:
    """Prepare, run and end the agent; engine failures become facts.

    `entered` is called when the agent gets control, `finished` when its command has ended by itself and
    its container is about to be killed.
    """
    phase = AgentPhase()
    try:
        launch = _prepare(station, hub, order, name, phase, control)
        entered()
        phase.facts["agent_started"] = True
        if launch.argv is not None:
            _run_agent(station, order, phase, control.cancelled)
        elif launch.driven:
            _drive(station, order, phase, control)
        if not phase.cancelled and not phase.over():
            finished()
        _end_sandbox(station, order, phase)
    except ImageMissingError:
        phase.facts["image_missing"] = True
    except SandboxMismatchError as error:
        phase.facts.update(image_mismatch=True, start_error=f"SandboxMismatch:{error.field}")
    except (
        UnknownUserError,
        BundleMismatchError,
        InstructionTooLongError,
        RelayError,
        SpaceError,
        LoopError,
    ) as error:
        phase.facts["start_error"] = type(error).__name__
    except (UnfitError, SidecarError, PodError) as error:
        _note_refused(phase, error)
    except EngineCallError as error:
        what = f"{error.call}:{error.kind}"
        if isinstance(error, ContainerGoneError) and phase.facts.get("agent_started"):
            phase.facts["agent_death"] = Death.REMOVED
        elif phase.facts.get("agent_started"):
            phase.facts.update(engine_error=what, engine_error_phase="agent")
            # A call may have failed because somebody paused or killed the sandbox: then that is the reason.
            _end_lost(station, order, phase, error)
        else:
            phase.facts["start_error"] = what
    if phase.sidecars is not None:
        with contextlib.suppress(EngineCallError):  # after a failure only: else they are dead by now
            phase.sidecars.end()
    return phase
