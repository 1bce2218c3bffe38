"""The blows by name: each runs one attempt and makes the trouble that a row of the drill describes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from orchestrator.attempts import AttemptReport
from workers.attempt.runner import AttemptRunner
from workers.faultline.full_disk import SmallDisk
from workers.faultline.proxy import EngineProxy, Rule
from workers.faultline.strike import Blow
from workers.sandbox.client import translated

ABSENT: Final = "sha256:" + "0" * 64
_CREATE: Final = r"^POST /containers/create\?name=assize-[^&]*-{role}(-\d+)?$"
_POOL: Final = "Pool overlaps with other one on this address space"
_NO_SPACE: Final = "failed to create shim: no space left on device"


def _kill(blow: Blow, role: str, *, agent_holds: bool = True) -> AttemptReport:
    def act() -> None:
        found = blow.wait_for_command(role)
        with translated("kill"):
            blow.engine.api.kill(found)

    return blow.beside(blow.held(agent=agent_holds), act)


def _remove(blow: Blow) -> AttemptReport:
    def act() -> None:
        found = blow.wait_for_command("agent")
        with translated("remove"):
            blow.engine.api.remove_container(found, force=True)

    return blow.beside(blow.held(), act)


def _pause(blow: Blow) -> AttemptReport:
    def act() -> None:
        found = blow.wait_for_command("agent")
        with translated("pause"):
            blow.engine.api.pause(found)

    return blow.beside(blow.held(), act)


def _no_store(blow: Blow) -> AttemptReport:
    blocked = blow.folder / f"blocked-{blow.order.attempt_id}"
    blocked.write_text("a file where the store should be")
    return blow.run(replace(blow.order, evidence_root=blocked))


def _full_disk(blow: Blow) -> AttemptReport:
    with SmallDisk(blow.folder / f"disk-{blow.order.attempt_id}") as disk:

        def act() -> None:
            found = blow.wait_for_command("agent")
            disk.fill()
            blow.let_go(found)

        return blow.beside(replace(blow.held(), evidence_root=disk.folder), act)


def _through(blow: Blow, rule: Rule, run: Callable[[], AttemptReport]) -> AttemptReport:
    """Run the attempt by a worker of its own, whose way to the engine has `rule` in it."""
    with EngineProxy(blow.engine.socket_path, rule) as host:
        blow.runner = AttemptRunner(host)
        try:
            return run()
        finally:
            blow.used_up(blow.runner)
            blow.hit = rule.used


def _refused(blow: Blow, role: str) -> AttemptReport:
    rule = Rule(_CREATE.format(role=role), refuse=(500, _NO_SPACE))
    return _through(blow, rule, lambda: blow.run(blow.order))


def _other_image(blow: Blow) -> AttemptReport:
    def lie(body: bytes) -> bytes | None:
        found = json.loads(body)
        if not found["Name"].endswith("-agent"):
            return None
        return json.dumps({**found, "Image": ABSENT}).encode()

    return _through(blow, Rule(r"^GET /containers/[0-9a-f]+/json", rewrite=lie), lambda: blow.run(blow.order))


def _kill_before_call(blow: Blow) -> AttemptReport:
    def strike(request: str) -> bool:
        found = request.split("/")[2]
        if found not in blow.containers("agent"):
            return False
        with translated("kill"):
            blow.engine.api.kill(found)
        return True

    return _through(
        blow, Rule(r"^POST /containers/[0-9a-f]+/exec$", before=strike), lambda: blow.run(blow.held())
    )


def _cut_stream(blow: Blow) -> AttemptReport:
    rule = Rule(r"^POST /exec/[0-9a-f]+/start$", cut=True)

    def act() -> None:
        found = blow.wait_for_command("agent")
        blow.wait_for(lambda: rule.used)
        blow.let_go(found)

    return _through(blow, rule, lambda: blow.beside(blow.held(), act))


def _no_network(blow: Blow) -> AttemptReport:
    """Every subnet is taken. A runtime with a network stack of its own makes the pod need a network."""
    rule = Rule(r"^POST /networks/create$", refuse=(403, _POOL), always=True)
    return _through(blow, rule, lambda: blow.run(replace(blow.order, runtime="runsc")))


def _kill_relay(blow: Blow) -> AttemptReport:
    """The relay of a worker of its own: a neighbour's calls must not die with it."""
    runner = blow.runner = AttemptRunner()

    def act() -> None:
        blow.wait_for_call()
        for pid in runner.hub.pids():
            os.kill(pid, signal.SIGKILL)

    try:
        return blow.beside(blow.order, act)
    finally:
        blow.used_up(runner)


def _kill_forwarder(blow: Blow) -> AttemptReport:
    def act() -> None:
        blow.wait_for_call()
        (found,) = blow.containers("forwarder")
        with translated("kill"):
            blow.engine.api.kill(found)

    return blow.beside(blow.order, act)


def _kill_service(blow: Blow) -> AttemptReport:
    def act() -> None:
        agent = blow.wait_for_command("agent")
        (found,) = blow.containers("sidecar")
        with translated("kill"):
            blow.engine.api.kill(found)
        blow.let_go(agent)

    return blow.beside(blow.held(), act)


BLOWS: Final[Mapping[str, Callable[[Blow], AttemptReport]]] = {
    "no-agent-image": lambda blow: blow.run(replace(blow.order, agent_image=ABSENT)),
    "no-grader-image": lambda blow: blow.run(replace(blow.order, grader_image=ABSENT)),
    "other-image": _other_image,
    "create-refused": lambda blow: _refused(blow, "agent"),
    "grader-refused": lambda blow: _refused(blow, "grader"),
    "kill-before-call": _kill_before_call,
    "kill-agent": lambda blow: _kill(blow, "agent"),
    "kill-grader": lambda blow: _kill(blow, "grader", agent_holds=False),
    "remove-agent": _remove,
    "pause-agent": _pause,
    "cut-stream": _cut_stream,
    "no-store": _no_store,
    "full-disk": _full_disk,
    "no-network": _no_network,
    "kill-relay": _kill_relay,
    "kill-forwarder": _kill_forwarder,
    "kill-service": _kill_service,
}


def impossible(blow: str) -> str | None:
    """Why a blow cannot be struck by this process on this host; None where it can."""
    if blow == "full-disk" and (os.geteuid() != 0 or shutil.which("mount") is None):
        return "needs root, to mount a disk of its own"
    if blow == "restart-engine" and (os.geteuid() != 0 or shutil.which("dockerd") is None):
        return "needs root and dockerd, to start an engine of its own"
    return None
