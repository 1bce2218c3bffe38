"""A task's own `storage_mb`, through the product: the limit of its tries, in evidence and outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.agents import registry
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.packs.pack import implicit_pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import hardware_class, launch
from orchestrator.screenings.opening import Sponsors
from scoring.vocabulary import Reason
from tests.assets.services.engines import Engines

pytestmark = pytest.mark.docker
MIB = 1 << 20
_WRITE = "dd if=/dev/zero of=/var/tmp/f bs=1M count=24 2>/dev/null"


def task(root: Path, name: str, storage_mb: int) -> None:
    """A task whose solution writes 24 MiB beside its one line of work."""
    for folder, file, text in (
        ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
        ("solution", "solve.sh", f"{_WRITE}\necho done > /app/out.txt\n"),
        ("tests", "test.sh", "[ -f /app/out.txt ] && echo 1 > /logs/verifier/reward.txt\n"),
    ):
        (root / name / folder).mkdir(parents=True)
        (root / name / folder / file).write_text(text)
    (root / name / "instruction.md").write_text("Create /app/out.txt.\n")
    (root / name / "task.toml").write_text(
        '[agent]\ntimeout_sec = 60.0\n[environment]\nnetwork_mode = "no-network"\nmemory_mb = 256\n'
        f"storage_mb = {storage_mb}\n"
    )


def test_the_tasks_own_disk_is_the_limit_of_its_tries(tmp_path: Path, engines: Engines) -> None:
    """The same work in two tasks: within the one's disk, past the other's."""
    task(tmp_path / "pack", "roomy", 64)
    task(tmp_path / "pack", "small", 8)
    pack = implicit_pack(tmp_path / "pack")
    installation = Installation.open(Home(tmp_path / "home"))
    try:
        agent = registry.resolve(installation.home, "oracle")
        sponsors = Sponsors("test:local", "test:local", "test:local")
        conditions = ScreeningConditions(tries=1, hardware_class=hardware_class())
        planned = launch(installation, pack, [agent], conditions, sponsors, again=True, say=lambda line: None)
        engines.run(installation, planned, parallel=2)
        ends = {}
        for view in queries.tries(installation.ledger, planned[0].screening_id):
            (last,) = queries.show_try(installation.ledger, view.row["id"]).attempts
            store = installation.store
            manifest = EvidenceManifest.from_bytes(store.read(str(last.manifest_digest), MIB))
            (report,) = (file for file in manifest.files if file.path == "sandbox-report.json")
            limits = json.loads(store.read(str(report.sha256), MIB))["limits"]
            ends[view.row["task_id"]] = (last.row["reason"], limits["diskBytes"])
    finally:
        installation.close()
    assert ends == {
        "roomy": (Reason.ALL_CHECKS_PASSED, 64 * MIB),
        "small": (Reason.DISK_LIMIT, 8 * MIB),
    }
