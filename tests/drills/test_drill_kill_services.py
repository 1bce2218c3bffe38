"""`kill -9` of `assize screen` while tries with several containers run, then the same command again.

Services, networks and leases of subnets of the dead process are taken back; every try is recorded once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.home import Home
from orchestrator.ledger import invariants, queries
from orchestrator.ledger.subnets import leases
from orchestrator.screenings.installation import Installation
from scoring.vocabulary import Outcome
from tests.assets.services.databases import environment_of
from workers.sandbox.client import Engine

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("databases")]

ASSETS = Path(__file__).parents[1] / "assets" / "services"


def make_pack(root: Path) -> Path:
    """The pack of the assets, whose agent takes its time."""
    shutil.copytree(ASSETS / "pack", root)
    task = root / "ask-store"
    for program in ("store.py", "mcp_server.py"):
        shutil.copy(ASSETS / program, task / "environment" / "store")
    solve = task / "solution" / "solve.sh"
    solve.write_text(solve.read_text("utf-8").replace("set -e\n", "set -e\nsleep 2\n"), "utf-8")
    return root


def command(home: Path, pack: Path) -> list[str]:
    """The very command line that is killed and repeated."""
    script = "from orchestrator.cli.main import main; main()"
    screen = ["screen", str(pack), "--agent", "oracle", "--tries", "2", "--parallel", "2", "--jsonl"]
    return [sys.executable, "-c", script, "--home", str(home), *screen]


def of_home(engine: Engine, label: str) -> dict[str, list[str]]:
    """Roles of containers, and names of networks, of this home."""
    filters = {"label": f"assize.home={label}"}
    containers = engine.api.containers(all=True, filters=filters)
    return {
        "roles": sorted(str(one["Labels"].get("assize.role")) for one in containers),
        "networks": sorted(str(one["Name"]) for one in engine.api.networks(filters=filters)),
    }


def test_kill_9_among_services(tmp_path: Path, engine: Engine) -> None:
    """Killed when an agent has just begun: its services run on until the next start, and no longer."""
    home, pack = tmp_path / "home", make_pack(tmp_path / "pack")
    environment = {**os.environ, **environment_of(home)}
    process = subprocess.Popen(
        command(home, pack),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=tmp_path,
    )
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "phaseentered" and event["phase"] == "agent":
            break
    os.killpg(process.pid, signal.SIGKILL)
    watchdog.cancel()
    process.wait(30)
    process.stdout.close()
    installation = Installation.open(Home(home))
    try:
        left = of_home(engine, installation.label)
        assert left["roles"].count("sidecar") >= 2 and left["networks"], left
        assert leases(installation.ledger)
    finally:
        installation.close()

    again = subprocess.run(
        command(home, pack),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert again.returncode == 0, again.stderr
    installation = Installation.open(Home(home))
    try:
        screening_id = queries.screenings(installation.ledger)[0]["id"]
        status = queries.status(installation.ledger, screening_id)
        assert (status.state, status.outcomes[Outcome.PASSED]) == ("complete", 2)
        assert invariants.violations(installation.ledger) == []
        assert leases(installation.ledger) == {}
        assert of_home(engine, installation.label) == {"roles": [], "networks": []}
    finally:
        installation.close()
