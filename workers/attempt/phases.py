"""The agent's phase of one attempt: sandbox up, agent under its caps, sandbox dead, facts noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.attempts import AttemptOrder
from orchestrator.observations import Clock, Death
from workers.adapters.launch import BUNDLE, HOME, INSTRUCTION, OUT, Launch, contract_environment, plan_launch
from workers.errors import ContainerGoneError, EngineCallError, ImageMissingError, SandboxMismatchError
from workers.sandbox.bundles import BundleMismatchError
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.counters import Counters, read_counters
from workers.sandbox.execute import Command, ExecResult, StreamEnd, run_command
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.tars import Owner, TarBuilder
from workers.sandbox.users import UnknownUserError, resolve_owner
from workers.sandbox.watch import EngineWatch

_LIFETIME_GRACE_S: Final = 300


@dataclass
class AgentPhase:
    """What the prepare and agent phases showed; `container` is stopped, or None if it never existed."""

    container: Container | None = None
    owner: Owner = field(default_factory=lambda: Owner(0, 0))
    workdir: str = "/"
    facts: dict[str, Any] = field(default_factory=dict)
    output: ExecResult | None = None
    argv: tuple[str, ...] | None = None
    counters: Counters = field(default_factory=lambda: Counters(None, None, None))
    state: Mapping[str, Any] | None = None
    cancelled: bool = False

    def over(self) -> bool:
        """True when grading makes no sense any more: the end is already decided."""
        decided = (
            "agent_clock",
            "agent_death",
            "engine_error",
            "start_error",
            "image_missing",
            "image_mismatch",
        )
        return any(self.facts.get(name) for name in decided) or "agent_started" not in self.facts


def _content(order: AttemptOrder, launch: Launch, owner: Owner) -> bytes:
    tar = TarBuilder()
    tar.folder("/assize", 0o755)
    tar.file(INSTRUCTION, order.instruction.encode(), 0o444)
    tar.folder(OUT, 0o755, owner)
    tar.folder(HOME, 0o700, owner)
    tar.folder("/logs", 0o755)
    tar.folder("/logs/agent", 0o755, owner)
    tar.folder("/logs/artifacts", 0o755, owner)
    if launch.solution:
        tar.tree(order.task_dir / "solution", order.solution_files, "/solution", owner, private=True)
    return tar.bytes()


def _prepare(
    engine: Engine, watch: EngineWatch, order: AttemptOrder, name: str, volume: str | None, phase: AgentPhase
) -> Launch:
    limits = Limits(
        order.caps.memory_bytes,
        order.caps.cpus_milli,
        order.caps.pids,
        order.caps.agent_wall_ms // 1000 + _LIFETIME_GRACE_S,
    )
    volumes = {volume: BUNDLE} if volume else {}
    body = create_body(
        order.agent_image,
        limits,
        runtime=order.runtime,
        grader=False,
        labels={**order.labels, "assize.role": "agent"},
        volumes=volumes,
        workdir=order.workdir,
    )
    config = engine.image_config(order.agent_image)
    container = phase.container = Container.create(engine, watch, name, body)
    phase.owner = resolve_owner(container, order.agent_user, str(config.get("User") or ""))
    phase.workdir = order.workdir or str(config.get("WorkingDir") or "/")
    launch = plan_launch(order)
    container.put(_content(order, launch, phase.owner))
    container.start()
    return launch


def _run_agent(
    engine: Engine, order: AttemptOrder, launch: Launch, phase: AgentPhase, cancelled: Callable[[], bool]
) -> None:
    container = phase.container
    assert container is not None and launch.argv is not None
    wall_s = order.caps.agent_wall_ms / 1000
    environment = contract_environment(order, phase.owner, phase.workdir, int(wall_s))
    phase.argv = launch.argv
    command = Command(
        launch.argv,
        f"{phase.owner.uid}:{phase.owner.gid}",
        {**environment, **launch.environment},
        phase.workdir,
    )
    result = phase.output = run_command(
        engine,
        container.id,
        command,
        deadline=time.monotonic() + wall_s,
        cap_bytes=order.caps.output_bytes,
        still_running=container.is_running,
        cancelled=cancelled,
    )
    phase.facts["agent_exit_code"] = result.exit_code
    phase.facts["agent_output_bytes"] = result.seen_bytes
    if result.end is StreamEnd.DEADLINE:
        phase.facts.update(agent_clock=Clock.WALL, agent_clock_value=order.caps.agent_wall_ms)
    elif result.end is StreamEnd.OUTPUT_CAP:
        phase.facts.update(agent_clock=Clock.OUTPUT, agent_clock_value=order.caps.output_bytes)
    phase.cancelled = result.end is StreamEnd.CANCELLED


def _end_sandbox(phase: AgentPhase) -> None:
    container = phase.container
    assert container is not None
    # The counters vanish with the cgroup, so they are read before the kill.
    phase.counters = read_counters(container.id)
    phase.state = container.kill()
    death = container.death(phase.state)
    phase.facts.update(
        agent_death=death,
        agent_oom_kills=phase.counters.oom_kills,
        agent_pids_limit_hits=phase.counters.pids_limit_hits,
        agent_max_memory_bytes=phase.counters.max_memory_bytes,
    )


def run_agent_phase(
    engine: Engine,
    watch: EngineWatch,
    order: AttemptOrder,
    name: str,
    volume: Callable[[], str | None],
    cancelled: Callable[[], bool],
    entered: Callable[[], None],
) -> AgentPhase:
    """Prepare, run and end the agent; engine failures become facts. `entered` is called when it starts."""
    phase = AgentPhase()
    try:
        launch = _prepare(engine, watch, order, name, volume(), phase)
        entered()
        phase.facts["agent_started"] = True
        if launch.argv is not None:
            _run_agent(engine, order, launch, phase, cancelled)
        _end_sandbox(phase)
    except ImageMissingError:
        phase.facts["image_missing"] = True
    except SandboxMismatchError as error:
        phase.facts.update(image_mismatch=True, start_error=f"SandboxMismatch:{error.field}")
    except (UnknownUserError, BundleMismatchError) as error:
        phase.facts["start_error"] = type(error).__name__
    except ContainerGoneError:
        phase.facts["agent_death"] = Death.REMOVED
    except EngineCallError as error:
        what = f"{error.call}:{error.kind}"
        if phase.facts.get("agent_started"):
            phase.facts.update(engine_error=what, engine_error_phase="agent")
        else:
            phase.facts["start_error"] = what
    return phase
