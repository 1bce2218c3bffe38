"""The same agent and task with a doubtful end on two workers: two processes, two machines in one ledger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from orchestrator.cli.main import main
from orchestrator.home import Home
from orchestrator.ledger.models import HostOwner
from orchestrator.screenings.installation import Installation
from tests.assets.services.databases import environment_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("databases")]
ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "assets" / "faults" / "worker_on_host.py"
MINUTES_S = 300


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """One task of one line."""
    root = tmp_path / "pack" / "tiny"
    for folder, name, text in (
        ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
        ("solution", "solve.sh", "echo done > /app/out.txt\n"),
        ("tests", "test.sh", "[ -f /app/out.txt ] && echo 1 > /logs/verifier/reward.txt\n"),
    ):
        (root / folder).mkdir(parents=True)
        (root / folder / name).write_text(text)
    (root / "instruction.md").write_text("Create /app/out.txt.\n")
    (root / "task.toml").write_text("[agent]\ntimeout_sec = 30.0\n[environment]\nmemory_mb = 256\n")
    return root.parent


def worker(tmp_path: Path, pack: Path, machine: str, *flags: str) -> dict[str, Any]:
    """One worker process on a machine of that name; how its screening's try ended."""
    name = tmp_path / f"machine-{machine}"
    name.write_text(machine * 32 + "\n")
    words = [sys.executable, str(WORKER), str(tmp_path / "home"), str(pack), str(name), *flags]
    done = subprocess.run(
        ["unshare", "--mount", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment_of(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=MINUTES_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["host"] == machine * 32
    return found


def ends(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Outcome, reason and mark of every attempt."""
    return [(one["outcome"], one["reason"], bool(one["suspect"])) for one in found["attempts"]]


def test_the_second_worker_makes_it_the_agents(
    tmp_path: Path, pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 6 deliver 6: on one host a doubt is void and re-run at most twice; on a second host it turns."""
    doubt = ("platform_fault", "engine_error", True)
    first = worker(tmp_path, pack, "a", "--bent")
    assert (first["state"], ends(first)) == ("uncountable", [doubt] * 3)
    again = worker(tmp_path, pack, "a", "--bent")
    assert ends(again) == [doubt] * 3, "two processes of one host share its trouble"
    second = worker(tmp_path, pack, "b", "--bent")
    assert (second["state"], ends(second)) == ("recorded", [("failed", "crash", True)])
    innocent = worker(tmp_path, pack, "c")
    assert ends(innocent) == [("passed", "all_checks_passed", False)], "no doubt, nothing to turn"
    installation = Installation.open(Home(tmp_path / "home"))
    try:
        with installation.ledger.reading() as connection:
            hosts = connection.scalars(sa.select(HostOwner.host)).all()
    finally:
        installation.close()
    assert len(hosts) == 4 and set(hosts) == {"a" * 32, "b" * 32, "c" * 32}
    with pytest.raises(SystemExit):
        main(["--home", str(tmp_path / "home"), "try", second["slot"]])
    assert "for review: the same doubtful end came on another worker before" in capsys.readouterr().out
