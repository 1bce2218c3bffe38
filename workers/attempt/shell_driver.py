"""Runs the worker's own loop: a model's commands in the sandbox, under the attempt's caps.

The model is asked through the attempt's lane (`shell`), or the agent at its own endpoint (`http-chat`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.observations import Clock
from workers.adapters.endpoint.errors import EndpointRefusedError
from workers.adapters.endpoint.link import TRY_LIMIT_BYTES, EndpointLink, Limit
from workers.adapters.endpoint.target import target_of
from workers.adapters.launch import contract_environment
from workers.adapters.shell.agent import CommandResult, ShellEnd, ShellTask, Why, drive
from workers.attempt.relayed import Relayed
from workers.capture.growth import disk_guard
from workers.relay.wire.family import Family
from workers.sandbox.container import Container
from workers.sandbox.execute import Command, StreamEnd, run_command
from workers.sandbox.guard import Guard
from workers.sandbox.station import Station
from workers.sandbox.tars import Owner


@dataclass
class Driven:
    """What came of it; `facts` are observations, `end` is None when a cap of ours ended it in a command."""

    end: ShellEnd | None = None
    cancelled: bool = False
    relay_ended: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


class _EndedError(Exception):
    """A clock or cap of ours fired while a command ran."""


class _Shell:
    """Runs the model's command lines one after the other and keeps the attempt's clocks over all of them."""

    def __init__(
        self,
        station: Station,
        order: AttemptOrder,
        container: Container,
        relayed: Relayed | None,
        owner: Owner,
        workdir: str,
        cancelled: Callable[[], bool],
        guard: Guard | None,
        beside_full: Callable[[], bool],
    ) -> None:
        self._station, self._order, self._container = station, order, container
        self._workdir, self._cancelled = workdir, cancelled
        self._relay_over: Callable[[], bool] = relayed.over if relayed else lambda: False
        self._user = f"{owner.uid}:{owner.gid}"
        self.deadline = time.monotonic() + order.caps.agent_wall_ms / 1000
        wall_s = order.caps.agent_wall_ms // 1000
        # The model's commands need no way to the relay: it is the worker that calls the model.
        contract = contract_environment(order, owner, workdir, wall_s)
        self._environment = {
            name: value for name, value in contract.items() if not name.endswith(("_KEY", "_TOKEN"))
        }
        self._guard = guard
        self._beside_full = beside_full
        self.seen_bytes = 0
        self.end: StreamEnd | None = None

    def stop(self) -> bool:
        """Whether something outside of the conversation ends it."""
        return self._cancelled() or self._relay_over()

    def run(self, text: str, limit_s: float) -> CommandResult:
        """One command line in a fresh shell; raises `_EndedError` when the whole try is over."""
        limit = time.monotonic() + limit_s
        result = run_command(
            self._station.engine,
            self._container.id,
            Command(("sh", "-c", text), self._user, self._environment, self._workdir),
            deadline=min(limit, self.deadline),
            cap_bytes=max(1, self._order.caps.output_bytes - self.seen_bytes),
            still_running=self._container.is_running,
            cancelled=self._cancelled,
            guard=self._guard,
            beside_full=self._beside_full,
            relay_ends=self._relay_over,
        )
        self.seen_bytes += result.seen_bytes
        timed_out = result.end is StreamEnd.DEADLINE
        if timed_out and time.monotonic() < self.deadline:
            return CommandResult(bytes(result.stdout + result.stderr), None, True)
        if result.end is not StreamEnd.EOF:
            self.end = result.end
            raise _EndedError
        return CommandResult(bytes(result.stdout + result.stderr), result.exit_code, False)


def drive_shell(
    station: Station,
    order: AttemptOrder,
    container: Container,
    relayed: Relayed | None,
    owner: Owner,
    workdir: str,
    control: AttemptControl,
    beside_full: Callable[[], bool],
) -> Driven:
    """Let the order's model or endpoint work on its task; raises `EngineCallError` as any command does.

    `beside_full` tells when a service of the task wrote more than an attempt may.
    """
    if order.mcp_servers:
        return _never_began(Why.LACKING, "the task has MCP servers, which this agent cannot use")
    try:
        link = (
            None if order.endpoint is None else EndpointLink(target_of(order.endpoint), control.calls_until)
        )
    except EndpointRefusedError as error:
        return _never_began(Why.REFUSED, str(error))
    cancelled = control.cancelled
    with disk_guard(station, container, order.disk) as guard:
        shell = _Shell(station, order, container, relayed, owner, workdir, cancelled, guard, beside_full)
        return _driven(order, shell, relayed, link, workdir, cancelled)


def _driven(
    order: AttemptOrder,
    shell: _Shell,
    relayed: Relayed | None,
    link: EndpointLink | None,
    workdir: str,
    cancelled: Callable[[], bool],
) -> Driven:
    driven, task = Driven(), _task(order, relayed, shell.deadline, workdir)
    with contextlib.suppress(_EndedError):
        driven.end = drive(task, shell.run, shell.stop, link=link)
    driven.facts["agent_output_bytes"] = shell.seen_bytes
    late = shell.end is StreamEnd.DEADLINE or (driven.end is not None and driven.end.why is Why.DEADLINE)
    if late:
        driven.facts.update(agent_clock=Clock.WALL, agent_clock_value=order.caps.agent_wall_ms)
    elif shell.end is StreamEnd.OUTPUT_CAP:
        driven.facts.update(agent_clock=Clock.OUTPUT, agent_clock_value=order.caps.output_bytes)
    elif shell.end is StreamEnd.DISK_CAP:
        driven.facts["artifact_overflow"] = True
    driven.cancelled = cancelled()
    driven.relay_ended = not driven.cancelled and relayed is not None and relayed.over()
    if link is not None:
        _note_endpoint(driven, link)
    return driven


def _task(order: AttemptOrder, relayed: Relayed | None, deadline: float, workdir: str) -> ShellTask:
    if order.endpoint is not None:
        model, family, lane = order.endpoint.model, Family.OPENAI_CHAT, None
    else:
        assert order.relay is not None and relayed is not None
        model, family, lane = order.relay.models[0].model, Family(order.agent["wire"]), relayed.lane
    return ShellTask(
        instruction=order.instruction,
        model=model,
        family=family,
        socket=None if lane is None else lane.socket,
        token="" if lane is None else lane.token,
        deadline=deadline,
        max_output_tokens=None,
        workdir=workdir,
    )


def _note_endpoint(driven: Driven, link: EndpointLink) -> None:
    """What our own side of the connection saw; nothing that the endpoint said."""
    lost = link.reached is Limit.LEASE
    driven.facts.update(step_cap_hit=link.reached is Limit.STEPS, lease_lost=lost)
    if link.reached is Limit.BYTES:
        driven.facts.update(agent_clock=Clock.OUTPUT, agent_clock_value=TRY_LIMIT_BYTES)
    silent = driven.end is not None and driven.end.why in (Why.REFUSED, Why.PROVIDER, Why.RELAY)
    if silent and not link.answered and not lost:
        driven.facts.update(agent_started=False, agent_not_startable=True)


def _never_began(why: Why, detail: str) -> Driven:
    driven = Driven(ShellEnd(why, 0, 0, detail, ()))
    driven.facts.update(agent_started=False, agent_not_startable=True)
    return driven
