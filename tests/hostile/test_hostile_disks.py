"""Agents under a read-only root: what can be written, how much, and what crosses (sandbox.md 1.3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder, DiskTerms
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from scoring.vocabulary import Outcome, Phase, Reason
from workers.sandbox import loop
from workers.sandbox.client import Engine
from workers.sandbox.reaper import reap
from workers.sandbox.tars import Owner

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]
MIB = 1 << 20
LIMIT = 16 * MIB
FILES = 300
WRONG = {Reason.WRONG_OUTPUT}
WANT = (
    '[ "$(cat /srv/work/out.txt 2>/dev/null)" = done ] && [ ! -e /srv/work/README ];'
    " echo $(( ! $? )) > /logs/verifier/reward.txt"
)
CLOSED = """
for d in / /etc /usr /usr/lib /var/lib /opt /root /home /assize /opt/agent /tests /srv; do
  touch $d/x 2>/dev/null && echo "$d can be written"
done
for d in /tmp /var/tmp /run; do
  printf '#!/bin/sh\\necho ran' > $d/x && chmod 755 $d/x && $d/x 2>/dev/null
done
"""


@pytest.fixture(params=["strict", "loop"])
def disk(request: pytest.FixtureRequest) -> DiskTerms:
    """Both kinds of disk with sized places."""
    return DiskTerms(str(request.param), LIMIT, FILES)


@pytest.fixture
def under(hostile: Hostile, disk: DiskTerms) -> Callable[..., AttemptOrder]:
    """An order with such a disk; its workspace is a folder that the image does not have."""
    return lambda script, test=WANT, **more: hostile(script, test, workdir="/srv/work", disk=disk, **more)


def shown(report: Any, order: AttemptOrder, name: str = "agent/stdout.txt") -> str:
    """A file of the evidence."""
    store = EvidenceStore(order.evidence_root)
    manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, MIB))
    return store.read({file.path: str(file.sha256) for file in manifest.files}[name], MIB).decode()


def test_work_crosses_and_nothing_else_can_be_written(siege: Any, under: Callable[..., AttemptOrder]) -> None:
    """The honest side: the workspace is collected, `/logs/artifacts` and the output folder too. What is
    left in HOME is an exhibit: listed, and never before the tests."""
    script = (
        f"{CLOSED}\necho done > out.txt; echo x > $HOME/h; echo y > /assize/out/o; echo z > /logs/artifacts/a"
    )
    order = under(f"({script}) 2>/dev/null; exit 0", f"[ ! -e /assize/home/h ] && {WANT}")
    report = siege.run(order)
    assert (report.decision.outcome, shown(report, order)) == (Outcome.PASSED, ""), report.observations
    assert shown(report, order, "agent/out/o") == "y\n"
    changes = shown(report, order, "workspace/changes.json")
    assert '["added","/logs/artifacts/a"]' in changes and '["added","/srv/work/out.txt"]' in changes
    assert '["added","/assize/home/h"]' in changes


def test_sizes_are_exact(siege: Any, under: Callable[..., AttemptOrder]) -> None:
    """res-disk, res-inodes: bytes and files end where the kernel says; the report says how much it was."""
    fill = "dd if=/dev/zero of=f bs=64k count=4096 2>/dev/null; stat -c %s f"
    many = "i=0; while touch n$i 2>/dev/null; do i=$((i+1)); done; echo $i"
    orders = {"bytes": under(f"{fill}; exit 0"), "files": under(f"{many}; exit 0")}
    reports = siege.run_all(orders)
    size = int(shown(reports["bytes"], orders["bytes"]))
    count = int(shown(reports["files"], orders["files"]))
    assert LIMIT * 0.8 < size <= LIMIT and FILES * 0.9 < count <= FILES
    assert all(one.decision.outcome is Outcome.FAILED for one in reports.values())
    written = [
        int(
            shown(reports[name], orders[name], "sandbox-report.json")
            .split('"writtenBytes":')[1]
            .split(",")[0]
        )
        for name in ("bytes", "files")
    ]
    assert size <= written[0] <= LIMIT + 4 * MIB and written[1] < 4 * MIB


def test_the_images_own_files_are_no_changes(siege: Any, hostile: Hostile, disk: DiskTerms) -> None:
    """The workspace begins as the image has it; only what differs is listed, deletions as well."""
    script = (
        "rm -r /etc/apt/apt.conf.d; echo '# x' >> /etc/apt/sources.list.d/x; chmod 600 /etc/apt/*.d/* || true"
    )
    test = (
        "[ ! -e /etc/apt/apt.conf.d ] && [ -e /etc/apt/trusted.gpg.d ];"
        " echo $(( ! $? )) > /logs/verifier/reward.txt"
    )
    order = hostile(f"({script}); exit 0", test, workdir="/etc/apt", disk=disk)
    report = siege.run(order)
    changes = shown(report, order, "workspace/changes.json")
    assert (
        '["deleted","/etc/apt/apt.conf.d"]' in changes and '["added","/etc/apt/sources.list.d/x"]' in changes
    )
    assert '"/etc/apt/preferences.d"' not in changes
    assert report.decision.outcome is Outcome.PASSED, (report.decision, changes)


def test_the_holder_is_ended_by_somebody(
    engine: Engine, runner: Any, control: Any, under: Callable[..., AttemptOrder], disk: DiskTerms
) -> None:
    """What was written is lost with its last mount: that is never read as an agent that did nothing."""
    order = under("echo done > out.txt; exit 0")
    ended = threading.Event()

    def act(phase: Phase) -> None:
        if phase is Phase.AGENT and not ended.is_set():
            ended.set()
            label = [f"assize.attempt={order.slot_id}/{order.token}", "assize.role=holder"]
            (holder,) = engine.api.containers(filters={"label": label})
            engine.api.kill(holder["Id"])

    control.on_phase = act
    report = runner(order, control)
    end = report.decision
    assert (end.outcome, end.reason) == (Outcome.PLATFORM_FAULT, Reason.SANDBOX_LOST)
    assert runner.settle() == []


def test_a_workspace_that_cannot_be_one(siege: Any, hostile: Hostile, disk: DiskTerms) -> None:
    """The root, or our own folders: refused before the agent is started, as no fault of the agent."""
    for place in ("/", "/assize", "/logs/x"):
        order = hostile("true", WANT, workdir=place, disk=disk)
        end = siege.runner(order, siege_control()).decision
        assert (end.outcome, end.phase) == (Outcome.PLATFORM_FAULT, Phase.PREPARE), place


def siege_control() -> Any:
    """An attempt's control that never cancels."""

    class Quiet:
        def phase(self, phase: object) -> None:
            pass

        def cancelled(self) -> bool:
            return False

        def calls_until(self) -> float | None:
            return None

    return Quiet()


def test_what_kill_9_leaves_of_a_loop_disk_is_reaped(engine: Engine, tmp_path: Path) -> None:
    """Between making a device and mounting it nobody else would ever free it; other homes are left alone."""
    made = {}
    for home in ("dead-home", "other-home"):
        labels = {"assize.home": home, "assize.attempt": "01SLOT/3"}
        made[home] = loop.LoopDevice.make(tmp_path / loop.file_name(labels), 8 * MIB, 100, Owner(0, 0)).path
    try:
        assert list(tmp_path.iterdir()) == [], "the file has no name any more"
        assert reap(engine, "dead-home", lambda label: label == "01SLOT/3").loops == []
        assert reap(engine, "dead-home", lambda label: False).loops == [made["dead-home"]]
        held = loop.held_files()
        assert made["dead-home"] not in held and made["other-home"] in held
    finally:
        loop.LoopDevice(made["other-home"]).let_go()
    assert made["other-home"] not in loop.held_files()


def test_a_disk_that_is_too_small_for_the_image(siege: Any, hostile: Hostile) -> None:
    """The workspace's own files do not fit: nothing that an agent did."""
    order = hostile("true", WANT, workdir="/usr/bin", disk=DiskTerms("strict", MIB, 100))
    end = siege.runner(order, siege_control()).decision
    assert end.outcome is Outcome.PLATFORM_FAULT and end.phase is Phase.PREPARE


def test_a_writable_disk_is_measured_at_the_end(siege: Any, hostile: Hostile) -> None:
    """Quicker than anybody looks: more than the limit is the agent's doing, also after its own end."""
    order = hostile("dd if=/dev/zero of=/var/tmp/f bs=1M count=24 2>/dev/null; exit 0", WANT)
    order = replace(order, disk=DiskTerms("writable", LIMIT, FILES))
    siege.fails(order, {Reason.DISK_LIMIT})
