"""A pack with services through the program: shown, admitted, screened, its evidence, and nothing left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.home import Home
from orchestrator.ledger.subnets import leases
from orchestrator.screenings.installation import Installation
from tests.assets.services.engines import Engines
from workers.sandbox.client import Engine

pytestmark = pytest.mark.docker

ASSETS = Path(__file__).parents[2] / "assets" / "services"


AS_ELSEWHERE = pytest.mark.only_on("sqlite", "nothing is planned, so nothing is asked of the ledger")


def assize(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program as a process of its own."""
    script = "from orchestrator.cli.main import main; main()"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ASSIZE_")}
    return subprocess.run(
        [sys.executable, "-c", script, "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=home.parent,
        check=False,
    )


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack of the assets, with the programs of its services in place."""
    root = tmp_path_factory.mktemp("services") / "with-services"
    shutil.copytree(ASSETS / "pack", root)
    for program in ("store.py", "mcp_server.py"):
        shutil.copy(ASSETS / program, root / "ask-store" / "environment" / "store")
    return root


def test_the_gate_admits_it_and_a_screening_passes(
    tmp_path: Path, pack: Path, engine: Engine, engines: Engines
) -> None:
    """Issue 6, deliver 8: admitted by the gate, screened by the oracle, certified; and nothing is left."""
    home = tmp_path / "home"
    checked = engines.assize(home, "packs", "check", str(pack), "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = engines.assize(home, "screen", str(pack), "--agent", "oracle", "--tries", "1", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (screening,) = json.loads(done.stdout)["screenings"]
    installation = Installation.open(Home(home))
    try:
        assert leases(installation.ledger) == {}
        filters = {"label": f"assize.home={installation.label}"}
        assert engine.api.containers(all=True, filters=filters) == []
        assert engine.api.networks(filters=filters) == []
    finally:
        installation.close()
    bundle = home / "certificates" / screening["screening"] / "screening.zip"
    verified = engines.assize(home, "verify", str(bundle), "--json")
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["accounting"]["passed"] == 1


@AS_ELSEWHERE
def test_what_is_run_differently_is_shown_before(tmp_path: Path, pack: Path) -> None:
    """`packs show` lists the services with their limits; nothing has been run or built for it."""
    shown = assize(tmp_path / "home", "packs", "show", str(pack), "--json")
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout
    assert "store, adder: without capabilities and without a way out, and gone before the grading" in text
    assert "store: 64 MB, 1 CPUs, 256 processes" in text
    assert "the default is used for GREETING" in text


@AS_ELSEWHERE
@pytest.mark.parametrize("arguments", [("--disk", "strict"), ("--runtime", "runsc")])
def test_conditions_that_services_cannot_have(tmp_path: Path, pack: Path, arguments: tuple[str, ...]) -> None:
    """Refused before anything is built, by task; the condition is never given up quietly."""
    refused = assize(tmp_path / "home", "screen", str(pack), "--agent", "oracle", *arguments)
    assert refused.returncode == 2
    assert "tasks with several containers need a writable disk and runc: ask-store" in refused.stderr


@AS_ELSEWHERE
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("    ports: ['80:80']\n", "services.store.ports: no port of the host is opened"),
        ("    privileged: true\n", "services.store.privileged: no container gets the host's rights"),
    ],
)
def test_what_is_refused_is_refused_by_key(tmp_path: Path, pack: Path, lines: str, said: str) -> None:
    """Exit 2 and a sentence with file, service and key; nothing was run."""
    changed: dict[str, Any] = {"dirs_exist_ok": True}
    root = tmp_path / "refused"
    shutil.copytree(pack, root, **changed)
    path = root / "ask-store" / "environment" / "docker-compose.yaml"
    path.write_text(path.read_text("utf-8").replace("\n  store:\n", f"\n  store:\n{lines}"), "utf-8")
    refused = assize(tmp_path / "home", "screen", str(root), "--agent", "oracle")
    assert refused.returncode == 2
    assert f"environment/docker-compose.yaml: {said}" in refused.stderr


@AS_ELSEWHERE
def test_images_of_services_are_pinned_and_one_without_limits_is_refused(tmp_path: Path, pack: Path) -> None:
    """Built into the same lock as the task's image; a volume of an image would be written without a limit."""
    home = tmp_path / "home"
    built = assize(home, "images", "build", str(pack), "--json")
    assert built.returncode == 0, built.stderr
    (row,) = json.loads(built.stdout)["tasks"]
    locked = {one["id"] for one in json.loads((home / "images.lock.json").read_text())["images"].values()}
    assert row["service_images"].keys() == {"adder", "store"}
    assert {*row["service_images"].values(), row["agent_image"]} <= locked
    root = tmp_path / "with-volume"
    shutil.copytree(pack, root)
    with (root / "ask-store" / "environment" / "store" / "Dockerfile").open("a", encoding="utf-8") as file:
        file.write("VOLUME /data\n")
    refused = assize(home, "images", "build", str(root))
    assert refused.returncode == 4
    said = "the image of the service store declares a volume (/data), which would have no limit"
    assert said in refused.stderr
