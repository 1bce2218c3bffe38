"""Wait until there is something to hit in an attempt, and hit it: facts, never times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from workers.attempt.runner import AttemptRunner
from workers.errors import WorkerError
from workers.faultline.errors import FaultlineError
from workers.sandbox.client import Engine, translated

HOLD: Final = "DRILL_HOLD"
GO: Final = "/tmp/drill-go"
_LOOK_S: Final = 0.02
_PATIENCE_S: Final = 120.0


@dataclass
class Blow:
    """One struck attempt: what may be used to strike it, and whether anything was hit."""

    engine: Engine
    runner: AttemptRunner
    order: AttemptOrder
    control: AttemptControl
    folder: Path
    hit: bool = False
    prepared: set[str] = field(default_factory=set)
    not_removed: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self, order: AttemptOrder) -> AttemptReport:
        """Run the attempt with an order that is the blow, or by a worker whose engine strikes."""
        self.hit = True
        return self.runner(order, self.control)

    def held(self, *, agent: bool = True) -> AttemptOrder:
        """The order with a verifier, and an agent if need be, that wait to be hit."""
        environment = {**self.order.environment, HOLD: "1"} if agent else self.order.environment
        return replace(
            self.order,
            environment=environment,
            grader_environment={**self.order.grader_environment, HOLD: "1"},
        )

    def used_up(self, runner: AttemptRunner) -> None:
        """End a worker that was made for this attempt; its prepared images go with it."""
        self.prepared |= runner.station.prepared.made()
        self.not_removed.extend(runner.close())

    def beside(self, order: AttemptOrder, act: Callable[[], None]) -> AttemptReport:
        """Run `order` with `act` in a thread of its own; an `act` that fails has hit nothing."""

        def strike() -> None:
            try:
                act()
                self.hit = True
            except WorkerError:
                self.hit = False  # told by `hit`; how the attempt ended then shows nothing

        thread = threading.Thread(target=strike, name="strike")
        thread.start()
        try:
            return self.runner(order, self.control)
        finally:
            self._over.set()
            thread.join()

    def wait_for(self, met: Callable[[], object]) -> None:
        """Look again and again; `FaultlineError` once the attempt is over."""
        for _ in range(int(_PATIENCE_S / _LOOK_S)):
            if met():
                return
            if self._over.wait(_LOOK_S):
                break
        raise FaultlineError("there was nothing to hit")

    def containers(self, role: str) -> list[str]:
        """Ids of the attempt's containers of one role."""
        wanted = [f"assize.attempt={self.order.slot_id}/{self.order.token}", f"assize.role={role}"]
        with translated("list"):
            return [str(one["Id"]) for one in self.engine.api.containers(all=True, filters={"label": wanted})]

    def wait_for_command(self, role: str) -> str:
        """The container of `role` once a command of ours really runs in it.

        A command that is only created is not enough: pausing an engine of version 20 between creating and
        starting one locks the container for ever (measured).
        """
        found: list[str] = []

        def runs() -> bool:
            found[:] = self.containers(role)
            return any(self._command_runs(one) for one in found)

        self.wait_for(runs)
        return found[0]

    def _command_runs(self, container_id: str) -> bool:
        try:
            with translated("inspect"):
                commands = self.engine.api.inspect_container(container_id)["ExecIDs"] or []
                return any(self.engine.api.exec_inspect(one)["Pid"] for one in commands)
        except WorkerError:
            return False  # not there yet, or not any more

    def wait_for_call(self) -> None:
        """Until a model call of the attempt is on its way to the provider."""
        assert self.order.relay is not None
        transcript = self.order.relay.state_root / self.order.attempt_id / "agent" / "transcript.jsonl"
        self.wait_for(lambda: transcript.exists() and b'"kind":"admit"' in transcript.read_bytes())

    def let_go(self, container_id: str) -> None:
        """The agent that waits may go on."""
        with translated("exec"):
            made = self.engine.api.exec_create(container_id, ["touch", GO], user="0:0")
            self.engine.api.exec_start(made["Id"], detach=True)
