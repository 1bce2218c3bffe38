"""`kill -9` of `assize screen` in the middle of a real screening, then the same command again.

The promise of issue 2: every slot recorded exactly once, no container, volume or network left, spend not
doubled, and the result verifies and counts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates.audit import audit_log
from orchestrator.home import Home
from orchestrator.ledger import invariants, queries
from orchestrator.ledger.records import certificates
from orchestrator.screenings.installation import Installation
from scoring.vocabulary import Outcome
from tests.assets.services.databases import environment_of
from workers.sandbox.client import Engine

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("databases")]

SOLVE = "#!/bin/bash\nsleep 1\necho done > /app/out.txt\n"
TEST = "#!/bin/bash\n[ -f /app/out.txt ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n"
CONFIG = 'schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n[environment]\ncpus = 1\nmemory_mb = 256\n'


def make_tasks(root: Path, names: tuple[str, ...]) -> Path:
    """A bare folder of Harbor tasks whose reference solution takes a second."""
    for name in names:
        for folder, file, text in (
            ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
            ("solution", "solve.sh", SOLVE),
            ("tests", "test.sh", TEST),
        ):
            (root / name / folder).mkdir(parents=True)
            (root / name / folder / file).write_text(text)
        (root / name / "task.toml").write_text(CONFIG)
        (root / name / "instruction.md").write_text(f"Create /app/out.txt ({name}).\n")
    return root


def command(home: Path, pack: Path) -> list[str]:
    """The very command line that is killed and repeated."""
    assize = str(Path(sys.executable).with_name("assize"))
    return [
        assize,
        "--home",
        str(home),
        "screen",
        str(pack),
        "--agent",
        "oracle",
        "--parallel",
        "2",
        "--jsonl",
    ]


def start(home: Path, pack: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(home, pack),
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def environment(home: Path) -> dict[str, str]:
    """This process's own, and where the home's ledger is."""
    return {**os.environ, **environment_of(home)}


def again_and_whole(home: Path, pack: Path) -> subprocess.CompletedProcess[str]:
    """The same command once more, to its end."""
    return subprocess.run(
        command(home, pack),
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def kill_when(process: subprocess.Popen[str], wanted: int, event: str) -> list[dict[str, Any]]:
    """Read events until `event` was seen `wanted` times, then SIGKILL the whole process group."""
    seen: list[dict[str, Any]] = []
    watchdog = threading.Timer(180, process.kill)
    watchdog.start()
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(json.loads(line))
        if sum(one["event"] == event for one in seen) >= wanted:
            break
    watchdog.cancel()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    return seen


def labelled(engine: Engine, label: str) -> list[str]:
    """Everything in the engine that belongs to this home."""
    filters = {"label": f"assize.home={label}"}
    found = [one["Id"] for one in engine.api.containers(all=True, filters=filters)]
    found += [one["Name"] for one in engine.api.volumes(filters=filters)["Volumes"] or []]
    found += [one["Id"] for one in engine.api.networks(filters=filters)]
    return found


def assert_logged_once(home: Path) -> None:
    """The log holds what the ledger holds, each statement once, and an audit finds nothing against it."""
    installation = Installation.open(Home(home))
    try:
        screening_id = queries.screenings(installation.ledger)[0]["id"]
        stored = certificates(installation.ledger, screening_id)
        root = installation.trust_root()
    finally:
        installation.close()
    (origin,) = root.logs
    found = audit_log(home / "log" / origin, root)
    assert found.exit_code == 0, found.findings
    assert (found.size, found.read) == (len(stored), len(stored))


@pytest.mark.parametrize(("event", "wanted"), [("started", 2), ("ended", 1), ("ended", 4)])
def test_kill_9_then_the_same_command(tmp_path: Path, engine: Engine, event: str, wanted: int) -> None:
    """distribution.md section 5: the restart takes the dead attempts over at once."""
    home, pack = tmp_path / "home", make_tasks(tmp_path / "tasks", ("alpha", "beta"))
    first = kill_when(start(home, pack), wanted, event)
    again = again_and_whole(home, pack)
    assert again.returncode == 0, again.stderr
    second = [json.loads(line) for line in again.stdout.splitlines()]

    resumed = [one for one in second if one["event"] == "resumed"]
    recorded = sum(one["event"] == "ended" for one in first)
    assert len(resumed) == 1 and resumed[0]["recorded"] >= recorded - 1
    installation = Installation.open(Home(home))
    try:
        label = installation.label
        screening_id = queries.screenings(installation.ledger)[0]["id"]
        status = queries.status(installation.ledger, screening_id)
        assert status.state == "complete" and status.total == 6
        assert status.outcomes[Outcome.PASSED] == 6
        assert invariants.violations(installation.ledger) == []
        assert status.used_nusd == 0 and status.reserved_nusd == 0
        ended = [one["claim"]["slot_id"] for one in (*first, *second) if one["event"] == "ended"]
        slots = {view.row["id"] for view in queries.tries(installation.ledger, screening_id)}
        assert set(ended) <= slots
    finally:
        installation.close()
    assert labelled(engine, label) == []
    bundle = home / "certificates" / screening_id / "screening.zip"
    verified = subprocess.run(
        [str(Path(sys.executable).with_name("assize")), "--home", str(home), "verify", str(bundle), "--json"],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["accounting"]["passed"] == 6
    assert_logged_once(home)


def test_ctrl_c_drains_and_the_same_command_goes_on(tmp_path: Path, engine: Engine) -> None:
    """DESIGN section 13: the first Ctrl-C lets running tries end; exit 130; the same command resumes."""
    home, pack = tmp_path / "home", make_tasks(tmp_path / "tasks", ("gamma", "delta"))
    process = start(home, pack)
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "started":
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=180)
    events = [json.loads(line)["event"] for line in rest.splitlines()]
    assert process.returncode == 130
    assert "draining" in events and "drained" in events
    again = again_and_whole(home, pack)
    assert again.returncode == 0, again.stderr
    installation = Installation.open(Home(home))
    try:
        status = queries.status(installation.ledger, queries.screenings(installation.ledger)[0]["id"])
        assert (status.state, status.outcomes[Outcome.PASSED], status.reruns) == ("complete", 6, 0)
        assert labelled(engine, installation.label) == []
    finally:
        installation.close()
