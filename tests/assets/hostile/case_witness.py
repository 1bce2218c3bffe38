"""What a worker does in the suite of hostile agents: every attempt with an honest sibling beside it.

It stands where the worker's attempt function stands, in this process or in the child of a worker, and hands
what it saw to `note`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.ids import new_id
from scoring.vocabulary import Phase

if TYPE_CHECKING:
    from tests.assets.hostile.case_canaries import HostWatch
    from workers.attempt.runner import AttemptRunner
    from workers.sandbox.client import Engine

NOTHING_LEFT_S: Final = 30.0


@dataclass(frozen=True)
class Witnessed:
    """One attempt as its worker saw it; `left` is what was labelled with it after 30 s."""

    order: AttemptOrder
    report: AttemptReport
    sibling: AttemptReport | None
    left: list[str]
    host: list[str]


class _Quiet:
    def phase(self, phase: Phase) -> None:
        pass

    def cancelled(self) -> bool:
        return False

    def calls_until(self) -> float | None:
        return None


class _Beside:
    """An attempt's control that also starts the sibling when the agent gets control."""

    def __init__(self, control: AttemptControl, begin: Callable[[], Future[AttemptReport]]) -> None:
        self._control, self._begin = control, begin
        self.sibling: Future[AttemptReport] | None = None

    def phase(self, phase: Phase) -> None:
        self._control.phase(phase)
        if phase is Phase.AGENT:
            self.sibling = self._begin()

    def cancelled(self) -> bool:
        return self._control.cancelled()

    def calls_until(self) -> float | None:
        return self._control.calls_until()


class Witness:
    """The worker's attempt function with an honest sibling beside every attempt."""

    def __init__(
        self, engine: Engine, runner: AttemptRunner, watch: HostWatch, note: Callable[[Witnessed], None]
    ) -> None:
        self._engine, self._runner, self._watch, self._note = engine, runner, watch, note

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Run both to their end, then wait until nothing of the hostile one is there any more."""
        with ThreadPoolExecutor(1) as pool:
            beside = _Beside(control, lambda: pool.submit(self._runner, _honest(order), _Quiet()))
            report = self._runner(order, beside)
            sibling = None if beside.sibling is None else beside.sibling.result()
        left = left_of(self._engine, order)
        self._note(Witnessed(order, report, sibling, left, self._watch.problems()))
        return report

    def unfit(
        self, home: str, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """As the runner's own."""
        return self._runner.unfit(home, agent, image_id, mcp_servers)

    def ready(self) -> bool:
        """As the runner's own."""
        return self._runner.ready()

    def reap(self, home: str, is_live: Callable[[str], bool]) -> Any:
        return self._runner.reap(home, is_live)

    def close(self) -> list[str]:
        return self._runner.close()


def _honest(order: AttemptOrder) -> AttemptOrder:
    """The same order for an agent that just does the work; it calls no model and is in no ledger."""
    slot = new_id()
    run = {"command": ["/opt/agent/start.sh", "sh", "/opt/agent/honest.sh"], "env": {}}
    return replace(
        order,
        slot_id=slot,
        attempt_id=new_id(),
        agent={"kind": "exec", "name": "honest", "version": "1", "run": run},
        caps=replace(order.caps, agent_wall_ms=60_000),
        labels={**order.labels, "assize.attempt": f"{slot}/{order.token}"},
        relay=None,
    )


def left_of(engine: Engine, order: AttemptOrder) -> list[str]:
    """What still bears the attempt's label or id after at most 30 s: of the engine, and of the kernel."""
    label = {"label": f"assize.attempt={order.labels['assize.attempt']}"}
    until = time.monotonic() + NOTHING_LEFT_S
    while True:
        found = [f"container {one['Names']}" for one in engine.api.containers(all=True, filters=label)]
        found += [f"image {one['Id']}" for one in engine.api.images(filters=label)]
        found += [f"network {one['Name']}" for one in engine.api.networks(filters=label)]
        found += [f"volume {one['Name']}" for one in engine.api.volumes(filters=label)["Volumes"] or []]
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
        loops = [path.read_text("utf-8") for path in Path("/sys/block").glob("loop*/loop/backing_file")]
        ids = (order.attempt_id.lower(), order.slot_id.lower())
        found += [one for one in (*mounts, *loops) if any(name in one.lower() for name in ids)]
        if not found or time.monotonic() >= until:
            return found
        time.sleep(0.05)
