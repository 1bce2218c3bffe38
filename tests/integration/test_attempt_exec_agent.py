"""An `exec` agent under the run contract: read-only bundle, instruction on stdin and as a file, own HOME."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents.bundle import read_bundle
from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Outcome, Reason
from workers.attempt.runner import AttemptRunner
from workers.sandbox.bundles import BundleVolumes
from workers.sandbox.client import Engine
from workers.sandbox.helpers import unstarted
from workers.sandbox.tars import TarBuilder

pytestmark = pytest.mark.docker

AGENT = """#!/bin/sh
set -e
cat > /tmp/from-stdin.txt
cmp /tmp/from-stdin.txt "$ASSIZE_INSTRUCTION"
touch /opt/agent/x 2>/dev/null && exit 9
test "$(id -u)" = 1000
test -w "$HOME" && test -w "$ASSIZE_OUT"
test -z "$(ls /solution /tests 2>/dev/null)"
env | sort > /tmp/env.txt
cp /opt/agent/data.txt /tmp/out.txt
"""
TEST = "cmp /tmp/out.txt /dev/stdin <<< from-the-bundle && echo 1 > /logs/verifier/reward.txt"


def volumes(engine: Engine) -> list[str]:
    """Names of all volumes of the engine."""
    return [one["Name"] for one in engine.api.volumes()["Volumes"] or []]


def agent_in(folder: Path) -> tuple[Path, str]:
    """A small bundle folder and its digest."""
    folder.mkdir()
    (folder / "run.sh").write_text(AGENT)
    (folder / "run.sh").chmod(0o755)
    (folder / "data.txt").write_text("from-the-bundle\n")
    (folder / "unique.txt").write_text(str(folder))
    return folder, read_bundle(folder).digest


def exec_order(make_order: Callable[..., AttemptOrder], bundle: Path, digest: str) -> AttemptOrder:
    agent = {"kind": "exec", "run": {"command": ["/opt/agent/run.sh"], "env": {"MY_SETTING": "5"}}}
    return make_order(
        "true", TEST, agent=agent, bundle_dir=bundle, bundle_digest=digest, agent_user="1000:1000"
    )


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[Path, str]:
    folder, digest = agent_in(tmp_path / "bundle")
    return folder, digest


def test_the_run_contract_holds(
    runner: AttemptRunner, control: Any, make_order: Callable[..., AttemptOrder], bundle: tuple[Path, str]
) -> None:
    """agents.md section 4, every row that the agent can check by itself."""
    report = runner(exec_order(make_order, *bundle), control)
    assert report.decision.outcome is Outcome.PASSED, report.observations


def test_a_volume_that_somebody_removed_is_noticed(
    engine: Engine,
    runner: AttemptRunner,
    control: Any,
    make_order: Callable[..., AttemptOrder],
    bundle: tuple[Path, str],
) -> None:
    """The engine makes a missing volume again, empty: an agent must not fail for that."""
    assert runner(exec_order(make_order, *bundle), control).decision.outcome is Outcome.PASSED
    assert runner.settle() == []
    engine.api.remove_volume(runner.station.bundles.name_of(bundle[1]), force=True)
    assert runner(exec_order(make_order, *bundle), control).decision.outcome is Outcome.PASSED


@pytest.mark.parametrize(("times", "end"), [(1, Reason.ALL_CHECKS_PASSED), (2, Reason.SANDBOX_START)])
def test_a_volume_that_is_removed_before_its_sandbox_is_made(
    times: int,
    end: Reason,
    engine: Engine,
    runner: AttemptRunner,
    control: Any,
    make_order: Callable[..., AttemptOrder],
    bundle: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filled again once; if that does not help it is the platform's fault. The agent never misses itself."""
    create, removals = runner.station.create, [times]

    def late(*given: Any) -> Any:
        if removals[0]:
            removals[0] -= 1
            engine.api.remove_volume(runner.station.bundles.name_of(bundle[1]), force=True)
        return create(*given)

    monkeypatch.setattr(runner.station, "create", late)
    report = runner(exec_order(make_order, *bundle), control)
    assert report.decision.reason is end, report.observations
    left = engine.api.volumes(filters={"name": runner.station.bundles.name_of(bundle[1])})["Volumes"] or []
    assert all((one.get("Labels") or {}).get("assize.bundle") == bundle[1] for one in left)


def test_a_volume_stays_and_is_not_filled_again(
    engine: Engine, make_order: Callable[..., AttemptOrder], control: Any, bundle: tuple[Path, str]
) -> None:
    """Issue 8: filled once per worker host. A second process has what the first one verified."""
    order = exec_order(make_order, *bundle)
    for number in range(2):
        fresh = AttemptRunner()
        assert fresh(order, control).decision.outcome is Outcome.PASSED
        name = fresh.station.bundles.name_of(bundle[1])
        assert fresh.close() == []
        assert name in volumes(engine), number
        # If it were read again, the second process would find it changed.
        (bundle[0] / "data.txt").write_text("changed after the volume was filled\n")


@pytest.mark.parametrize("left", ["nothing", "files", "wrong manifest"])
def test_a_volume_whose_filling_was_cut_off_is_filled_again(
    engine: Engine,
    runner: AttemptRunner,
    control: Any,
    make_order: Callable[..., AttemptOrder],
    bundle: tuple[Path, str],
    base_image: str,
    left: str,
) -> None:
    """MANIFEST goes in last: a volume without the right one is not trusted, whatever else it holds."""
    order = exec_order(make_order, *bundle)
    engine.owner_labels = {"assize.home": order.labels["assize.home"]}
    name = BundleVolumes(engine).name_of(bundle[1])
    engine.api.create_volume(name, labels={**engine.owner_labels, "assize.bundle": bundle[1]})
    tar = TarBuilder()
    if left != "nothing":
        tar.file("run.sh", b"#!/bin/sh\nexit 1\n", 0o755)
    if left == "wrong manifest":
        tar.file("MANIFEST", b"", 0o444)
    mount = {"Type": "volume", "Source": name, "Target": "/opt/agent", "VolumeOptions": {"NoCopy": True}}
    with unstarted(engine, base_image, "cut", [mount]) as helper:
        engine.api.put_archive(helper, "/opt/agent", tar.bytes())
    assert runner(order, control).decision.outcome is Outcome.PASSED


def test_a_volume_is_reaped_when_its_home_has_the_bundle_no_more(
    engine: Engine, make_order: Callable[..., AttemptOrder], control: Any, bundle: tuple[Path, str]
) -> None:
    """The home is asked by digest; what a container has mounted stays until the next time."""
    fresh = AttemptRunner()
    order = exec_order(make_order, *bundle)
    order = replace(order, labels={**order.labels, "assize.home": "reaped-bundles"})
    name = fresh.station.bundles.name_of(bundle[1])
    try:
        assert fresh(order, control).decision.outcome is Outcome.PASSED
        assert fresh.settle() == []
        name = fresh.station.bundles.name_of(bundle[1])
        live = f"bundle/{bundle[1]}"
        assert fresh.reap("reaped-bundles", lambda label: label == live).volumes == []
        mount = {"Type": "volume", "Source": name, "Target": "/opt/agent"}
        with unstarted(engine, order.agent_image, "user", [mount]):
            assert fresh.reap("reaped-bundles", lambda label: False).volumes == []
        assert fresh.reap("reaped-bundles", lambda label: False).volumes == [name]
    finally:
        assert fresh.close() == []
    assert name not in volumes(engine)


def test_the_volume_of_a_dead_process_is_reaped(
    engine: Engine, make_order: Callable[..., AttemptOrder], runner: AttemptRunner
) -> None:
    """Labels, not names, tell whose a volume is; nothing of a live owner or another home is touched."""
    ours = {"assize.home": "reaped-home", "assize.bundle": "x"}
    for name, labels in (
        ("assize-test-dead", {**ours, "assize.attempt": "owner/dead"}),
        ("assize-test-live", {**ours, "assize.attempt": "owner/live"}),
        ("assize-test-other", {**ours, "assize.attempt": "owner/dead", "assize.home": "other-home"}),
    ):
        engine.api.create_volume(name, labels=labels)
    try:
        reaped = runner.reap("reaped-home", lambda label: label == "owner/live")
        assert reaped.volumes == ["assize-test-dead"]
    finally:
        for name in ("assize-test-live", "assize-test-other"):
            engine.api.remove_volume(name, force=True)


def test_a_bundle_changed_after_registration_is_refused(
    runner: AttemptRunner, control: Any, make_order: Callable[..., AttemptOrder], tmp_path: Path
) -> None:
    """The bundle's digest is part of the agent revision: another content is another agent."""
    folder, digest = agent_in(tmp_path / "changed")
    (folder / "data.txt").write_text("something else\n")
    report = runner(exec_order(make_order, folder, digest), control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PLATFORM_FAULT, Reason.SANDBOX_START)
    assert report.observations["start_error"] == "BundleMismatchError"
