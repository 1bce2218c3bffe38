"""Deadlines that bind: the container dies, late work counts for nothing, the record names the clock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from scoring.vocabulary import Phase, Reason

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]
MIB = 1 << 20
WALL_MS = 2_000
CGROUPS = Path("/sys/fs/cgroup")
LATE = "sleep 3; while :; do echo done > /tmp/out.txt; echo late > /logs/artifacts/late; sleep 0.1; done"
WAYS = {
    "sleeps": f"({LATE})",
    "leaves its session": f"setsid sh -c '{LATE}' >/dev/null 2>&1 & sleep 60",
    "ignores every signal": f"trap '' TERM INT HUP QUIT ALRM PIPE USR1 USR2; ({LATE})",
    "stands still": "kill -STOP $$",
    "closes its output": f"exec >&- 2>&-; ({LATE})",
    "many": f"for n in 1 2 3 4 5 6 7 8 9; do sh -c '{LATE}' & done; wait",
    "floods below its cap": "while :; do echo x; sleep 0.05; done",
}


def files_of(order: AttemptOrder, report: Any) -> Mapping[str, bytes]:
    """The evidence by path."""
    store = EvidenceStore(order.evidence_root)
    manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, MIB))
    return {file.path: store.read(file.sha256, 8 * MIB) for file in manifest.files if file.sha256}


@pytest.fixture(scope="module")
def ids(engine: Any) -> Any:
    """Every container that the engine told of meanwhile, with its actions, by the attempt's label."""
    from workers.sandbox.watch import EngineWatch

    class Told(EngineWatch):
        def __init__(self) -> None:
            self.names: dict[str, str] = {}
            super().__init__(engine, "assize.attempt")

        def _note(self, event: dict[str, object]) -> None:
            actor: Any = event.get("Actor") or {}
            self.names[str(actor.get("Attributes", {}).get("name"))] = str(event.get("id"))
            super()._note(event)

    told = Told()
    yield told
    told.close()


def test_at_the_deadline_the_container_dies_and_nothing_counts(
    siege: Any, hostile: Hostile, ids: Any
) -> None:
    """Issue 6 deliver 4: killed by us and by nobody else, whatever runs in it; nothing is graded."""
    orders = {name: hostile(script, wall_ms=WALL_MS) for name, script in WAYS.items()}
    reports = siege.run_all(orders)
    for name, order in orders.items():
        report, files = reports[name], files_of(order, reports[name])
        assert (report.decision.reason, report.decision.rule) == (Reason.TIMEOUT, "wall-clock"), name
        sandbox = json.loads(files["sandbox-report.json"])
        assert sandbox["events"] == ["kill", "die"], name
        assert sandbox["finalState"]["ExitCode"] == 137 and sandbox["finalState"]["Status"] == "exited"
        assert report.reward is None and report.gradings == ()
        assert not [path for path in files if path.startswith("grader/")], "nothing was graded"
        container = ids.names[f"assize-{order.attempt_id}-agent"]
        assert list(CGROUPS.glob(f"*/docker/{container}")) == [], "a process of it still runs"
        assert b"late" not in files.get("workspace/carried.tar", b""), name


def test_the_record_names_the_clock_and_its_value(siege: Any, hostile: Hostile) -> None:
    """Which clock, and what it was set to, stands in the evidence that is hashed and certified."""
    agent = hostile("sleep 60", wall_ms=WALL_MS)
    flood = hostile("yes")
    slow = hostile("echo done > /tmp/out.txt", "sleep 60")
    slow = replace(slow, caps=replace(slow.caps, grade_wall_ms=1_500))
    reports = siege.run_all({"agent": agent, "flood": flood, "slow": slow})
    seen = {
        name: json.loads(files_of(order, reports[name])["observations.json"])["observations"]
        for name, order in (("agent", agent), ("flood", flood), ("slow", slow))
    }
    clocks = ("agent_clock", "agent_clock_value", "grader_clock", "grader_clock_value")
    assert {name: tuple(one[clock] for clock in clocks) for name, one in seen.items()} == {
        "agent": ("wall", WALL_MS, None, None),
        "flood": ("output", flood.caps.output_bytes, None, None),
        "slow": (None, None, "wall", 1_500),
    }
    assert {name: one.decision.reason for name, one in reports.items()} == {
        "agent": Reason.TIMEOUT,
        "flood": Reason.OUTPUT_LIMIT,
        "slow": Reason.NO_VERDICT,
    }


def test_a_verdict_that_comes_late_is_none(siege: Any, hostile: Hostile) -> None:
    """A verifier past its own deadline may have written a one: nobody reads it."""
    test = "echo 1 > /logs/verifier/reward.txt; sleep 60"
    order = hostile("echo done > /tmp/out.txt", test)
    report = siege.run(replace(order, caps=replace(order.caps, grade_wall_ms=1_500)))
    assert (report.decision.reason, report.reward) == (Reason.NO_VERDICT, None)


def test_an_end_does_not_wait_for_the_removal(
    siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean-up is bounded: an engine that does not remove holds no report back; it is done when it can be."""
    released, asked = threading.Event(), threading.Event()
    api = siege.runner.station.engine.api
    remove = api.remove_container

    def held(*words: Any, **more: Any) -> Any:
        asked.set()
        assert released.wait(60)
        return remove(*words, **more)

    monkeypatch.setattr(api, "remove_container", held)
    order = hostile("sleep 60", wall_ms=500)
    try:
        report = siege.runner(order, Quiet())
        assert report.decision.reason is Reason.TIMEOUT and asked.wait(60)
        label = {"label": f"assize.attempt={order.labels['assize.attempt']}"}
        states = {one["State"] for one in siege.engine.api.containers(all=True, filters=label)}
        assert states == {"exited"}, "dead, though it is still there"
    finally:
        released.set()
    assert siege.runner.settle() == []
    assert siege.engine.api.containers(all=True, filters=label) == []


class Quiet:
    """An attempt's control that never cancels, and knows the phases."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []

    def phase(self, phase: Phase) -> None:
        self.phases.append(phase)

    def cancelled(self) -> bool:
        return False

    def calls_until(self) -> float | None:
        return None
