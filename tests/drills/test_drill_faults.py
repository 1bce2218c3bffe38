"""Every fault that can be made on one machine, made for real: each lands in its class, nothing is left.

The rows, what is injected and what must come of it are data (`orchestrator.drills.table`); here they are
played, and the ledger, the signed certificates and the verified bundles are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orchestrator.cli import exits
from orchestrator.drills.drill import Report, drill
from orchestrator.drills.faultline import load_faultline
from orchestrator.drills.judge import Verdict
from orchestrator.drills.rows import Row, Scene
from orchestrator.drills.table import ROWS
from orchestrator.ids import new_id
from workers.errors import ImageMissingError
from workers.faultline.line import Faultline
from workers.sandbox.client import Engine
from workers.sandbox.prepared import PreparedImages
from workers.sandbox.tars import TarBuilder

pytestmark = pytest.mark.docker

TOGETHER = [row for row in ROWS if row.scene in (Scene.PLAIN, Scene.METERED, Scene.GATE)]
COMMANDS = [row for row in ROWS if row.scene is Scene.COMMAND]
OWN_ENGINE = [row for row in ROWS if row.scene is Scene.OWN_ENGINE]


def play(rows: Sequence[Row]) -> Report:
    with load_faultline() as line:
        return drill(line, rows, parallel=4, say=lambda text: None)


@pytest.fixture(scope="module")
def together() -> Iterator[Report]:
    """All rows that share one house, side by side."""
    yield play(TOGETHER)


@pytest.fixture
def own_bridge(engine: Engine) -> Iterator[str]:
    """The bridge of a network of this test's own: those of other tests come and go."""
    made = engine.api.create_network(f"assize-test-{new_id()}".lower(), labels={"assize.test": "drill"})["Id"]
    yield f"br-{made[:12]}"
    engine.api.remove_network(made)


def verdict_of(report: Report, row: Row) -> Verdict:
    (found,) = [one for one in report.verdicts if one.row is row]
    if found.not_run and os.geteuid() != 0:
        pytest.skip(f"{row.name}: {found.not_run}")
    return found


@pytest.mark.parametrize("row", TOGETHER, ids=lambda row: row.name)
def test_it_lands_where_it_must(together: Report, row: Row) -> None:
    """Issue 6: its class, its evidence named, its re-runs, its payer, and what the scorer is handed."""
    found = verdict_of(together, row)
    assert found.holds, (found.problems, found.not_run)


def test_no_platform_fault_is_scored_no_failure_run_again_and_nothing_left(together: Report) -> None:
    """Issue 6, second and third line of judgement, over all rows of one house at once."""
    assert together.faults_scored == 0
    assert together.failures_rerun == 0
    assert together.problems == ()
    ends = [attempt for one in together.verdicts for seen in one.tries for attempt in seen.attempts]
    assert sum(one.outcome.value == "platform_fault" for one in ends) >= 25
    assert sum(one.outcome.value == "failed" for one in ends) >= 9


@pytest.fixture(scope="module")
def commands() -> Iterator[Report]:
    """Every row of a command, each with a home of its own."""
    yield play(COMMANDS)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_command_is_struck_and_given_again(commands: Report, row: Row) -> None:
    """kill -9, SIGTERM, a ledger or a key that is gone, a clock that is set: the same command finishes."""
    found = verdict_of(commands, row)
    assert found.holds, (found.problems, found.not_run)
    assert commands.faults_scored == commands.failures_rerun == 0


def bridges() -> set[str]:
    """What an engine that is told to have no bridge would remove."""
    return {path.parent.name for path in Path("/sys/class/net").glob("*/bridge")}


@pytest.mark.parametrize("row", OWN_ENGINE, ids=lambda row: row.name)
def test_an_engine_of_its_own_is_killed_and_started_again(row: Row, own_bridge: str) -> None:
    """sandbox.md 5.1: the engine of this host and its bridges stay, and the second one leaves no process."""
    assert {"docker0", own_bridge} <= bridges()
    found = verdict_of(play([row]), row)
    assert found.holds, (found.problems, found.not_run)
    assert {"docker0", own_bridge} <= bridges()
    left = subprocess.run(["pgrep", "-f", "assize-engine-.*/containerd"], capture_output=True, check=False)
    assert left.stdout == b""


def test_an_image_that_a_worker_beside_us_uses_stays(engine: Engine, base_image: str) -> None:
    """Prepared images are named by their content: a try of somebody else may be run in one that we made."""
    content = TarBuilder()
    content.file("/assize-drill", new_id().encode(), 0o444)
    prepared, beside = PreparedImages(engine), PreparedImages(engine)
    made = prepared.ensure(base_image, None, "drill", lambda owner: content.bytes())
    assert beside.ensure(base_image, None, "drill", lambda owner: content.bytes()) == made
    assert (prepared.made(), beside.made()) == ({made.id}, set()), "only one of them made it"
    labels = {"assize.test": "drill"}
    container = engine.api.create_container(made.id, entrypoint=["sleep", "600"], labels=labels)["Id"]
    try:
        engine.api.start(container)
        with Faultline() as line:
            line._prepared |= prepared.made()
        assert engine.find_image(made.id)
    finally:
        engine.api.remove_container(container, force=True)
    with Faultline() as line:
        line._prepared |= prepared.made()
    with pytest.raises(ImageMissingError):
        engine.find_image(made.id)


def test_the_command_line() -> None:
    """`assize drill` itself: exit 0, one JSON object, and the operator's own home is not looked at."""
    program = [sys.executable, "-c", "from orchestrator.cli.main import main; main()"]
    ran = subprocess.run(
        [*program, "--home", "/nonexistent/home", "drill", "none", "sandbox-killed", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASSIZE_DATABASE_URL": "sqlite:////nonexistent/ledger.db"},
    )
    assert ran.returncode == exits.DONE, ran.stderr
    found = json.loads(ran.stdout)
    assert [(one["row"], one["holds"]) for one in found["rows"]] == [("none", True), ("sandbox-killed", True)]
    (seen,) = found["rows"][1]["tries"]
    assert [one["reason"] for one in seen["attempts"]] == ["sandbox_lost", "all_checks_passed"]
