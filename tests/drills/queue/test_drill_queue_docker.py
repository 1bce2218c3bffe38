"""A real screening on a real worker: watched, left, its worker killed, taken up again, verified.

One task of coding-core with oracle and nop; Docker, Redis, processes and commands are real.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.screenings.installation import Installation
from tests.assets.programs import forks
from tests.assets.programs.forks import ASSIZE, Forked
from tests.assets.services.databases import environment_of
from tests.assets.services.own import ServiceError, wait_until
from tests.assets.services.redis import RedisServer
from workers.sandbox.client import Engine

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("databases")]
SCREEN = ["screen", "coding-core", "--task", "cron-next-run", "--agent", "oracle", "--agent", "nop"]
WITHIN_S = 180.0


class Program:
    """The program in one home with one broker."""

    def __init__(self, home: Path, broker: str) -> None:
        self.home = home
        root = str(Path(__file__).parents[3])
        self.environment = {
            **os.environ,
            "PYTHONPATH": root,
            "ASSIZE_HOME": str(home),
            "ASSIZE_BROKER_URL": broker,
            **environment_of(home),
        }
        self.processes: list[Forked] = []

    def start(self, *arguments: str) -> Forked:
        with open(self._log(len(self.processes)), "wb") as log:
            process = forks.start(
                [ASSIZE, *arguments], env=self.environment, cwd=self.home.parent, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def _log(self, number: int) -> Path:
        return self.home.parent / f"said.{number}"

    def said(self) -> str:
        """What every process that was started has written, and whether it is still there."""
        return "\n".join(
            f"--- process {number}, exit {process.poll()}\n{self._log(number).read_text()}"
            for number, process in enumerate(self.processes)
        )

    def soon(self, fact: Callable[[], bool], what: str) -> None:
        """Wait for a fact; the message of a wait in vain says what the processes wrote."""
        try:
            wait_until(fact, what, within_s=WITHIN_S)
        except ServiceError as error:
            raise ServiceError(f"{error}\n{self.said()}") from None

    def run(self, *arguments: str) -> tuple[int, str]:
        done = forks.run([ASSIZE, *arguments], env=self.environment, cwd=self.home.parent, timeout=WITHIN_S)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def program(redis_server: RedisServer, tmp_path: Path) -> Iterator[Program]:
    home = tmp_path / "home"
    home.mkdir()
    shared = Path(os.environ.get("ASSIZE_HOME", "")) / "images.lock.json"
    if shared.is_file():
        shutil.copy(shared, home)  # images that are there already are not built again
    made = Program(home, redis_server.url)
    yield made
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def installation(program: Program) -> Iterator[Installation]:
    opened = Installation.open(Home(program.home))
    yield opened
    opened.close()


def containers(engine: Engine, installation: Installation) -> set[str]:
    """The `assize.attempt` labels of what this home has in the engine."""
    found = engine.api.containers(all=True, filters={"label": f"assize.home={installation.label}"})
    return {str(one["Labels"]["assize.attempt"]) for one in found}


def tries_in(engine: Engine, installation: Installation) -> set[str]:
    """The labels of tries alone."""
    return {one for one in containers(engine, installation) if not one.startswith(("owner/", "bundle/"))}


def lost_labels(ledger: Ledger) -> set[str]:
    """`<slot>/<token>` of every attempt that was lost with its worker."""
    found = set()
    for row in queries.screenings(ledger):
        for view in queries.tries(ledger, row["id"]):
            for one in queries.show_try(ledger, view.row["id"]).attempts:
                if one.row["reason"] == "worker_lost":
                    found.add(f"{one.row['slot_id']}/{one.row['token']}")
    return found


def both_verify(program: Program) -> None:
    """The bundle of each agent is authentic and accounts for every try."""
    bundles = sorted(program.home.glob("certificates/*/screening.zip"))
    assert len(bundles) == 2
    for bundle in bundles:
        code, said = program.run("verify", str(bundle))
        assert code in (0, 3) and "authentic   yes" in said and "COMPLETE    yes" in said, said


def test_a_campaign_outlives_its_watcher_and_its_worker(
    program: Program, installation: Installation, engine: Engine
) -> None:
    """Ctrl-C leaves, kill -9 of a worker costs one re-run and leaves no container, the result verifies."""
    worker = program.start("worker", "run", "--slots", "2")
    screen = program.start(*SCREEN, "--tries", "1", "--engine", "celery")
    program.soon(lambda: tries_in(engine, installation) != set(), "a try")
    screen.send_signal(signal.SIGINT)
    assert screen.wait(WITHIN_S) == 130 and "the same command comes back" in program.said(), program.said()
    before = tries_in(engine, installation)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    assert before, "a try was running when its worker was killed"

    second = program.start("worker", "run", "--slots", "2")
    program.soon(lambda: before <= lost_labels(installation.ledger), "the lost attempts are taken over")
    program.soon(lambda: not before & containers(engine, installation), "what they left is removed")

    code, said = program.run(*SCREEN, "--tries", "1", "--engine", "celery", "--json")
    assert code == 3, said  # one task of a pack does not count in full
    both_verify(program)
    assert violations(installation.ledger) == []
    assert _ends(installation.ledger) == {"oracle": "recorded/passed", "nop": "recorded/failed"}

    second.send_signal(signal.SIGTERM)
    assert second.wait(WITHIN_S) == 0
    assert containers(engine, installation) == set()


def test_a_campaign_that_ends_without_its_signer(
    program: Program, installation: Installation, engine: Engine
) -> None:
    """Workers close it, nobody signs; the same command certifies every try before it sums them up."""
    worker = program.start("worker", "run", "--slots", "2")
    screen = program.start(*SCREEN, "--tries", "1", "--engine", "celery")
    program.soon(lambda: queries.live_attempts(installation.ledger) != [], "a try")
    screen.send_signal(signal.SIGINT)
    assert screen.wait(WITHIN_S) == 130, program.said()
    program.soon(
        lambda: all(row["closed_ms"] is not None for row in queries.screenings(installation.ledger)),
        "the workers close both",
    )
    assert queries.certifiable(installation.ledger) != [], "tries that nobody has certified"
    code, said = program.run(*SCREEN, "--tries", "1", "--engine", "celery", "--json")
    assert code == 3, said  # one task of a pack does not count in full
    assert queries.certifiable(installation.ledger) == []
    both_verify(program)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(WITHIN_S) == 0


def _ends(ledger: Ledger) -> dict[str, str]:
    found: dict[str, Any] = {}
    for row in queries.screenings(ledger):
        (view,) = queries.tries(ledger, row["id"])
        found[row["agent_id"]] = f"{view.row['state']}/{view.row['outcome']}"
    return found
