"""Two hosts with an engine each, one ledger, one broker and one home; real workers, a real screening.

The second host reaches PostgreSQL and Redis over a cable only, as a role that can certify nothing, and does
not see the keys. Its agent spends: it calls a rehearsed model again and again until it is told to finish.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from docker.errors import APIError

from orchestrator.home import Home
from orchestrator.ledger import queries, roles
from orchestrator.ledger.hosts import workers
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import upgrade
from orchestrator.ledger.models import Attempt, Certificate, HostOwner, TrySlot, Worker
from orchestrator.ledger.states import AttemptState
from orchestrator.screenings.installation import Installation
from scoring.vocabulary import Phase
from tests.assets.hosts.machine import Inmate, Machine
from tests.assets.programs import forks
from tests.assets.programs.forks import Forked
from tests.assets.services.own import wait_until
from tests.assets.services.postgres import PostgresServer
from tests.assets.services.redis import RedisServer
from workers.faultline.own_engine import OwnEngine
from workers.relay.hub import lane_folder
from workers.sandbox.client import Engine

ROOT: Final = Path(__file__).parents[3]
TIMES: Final = {
    "lease_ms": 4_000,
    "beat_ms": 500,
    "dispatch_ms": 100,
    "sweep_ms": 3_000,
    "reap_ms": 300,
    "tidy_ms": 2_000,
    "back_off_ms": 0,
    "persist_ms": 300,
    "call_leases": 3,
}
WITHIN_S: Final = 120.0
PASSWORD: Final = "over-the-cable"
HERE, THERE = "lab-1", "lab-2"
_TASK: Final = (
    'schema_version = "1.4"\n[agent]\ntimeout_sec = 600.0\n'
    '[environment]\ndocker_image = "assize/base:1"\ncpus = 1\nmemory_mb = 256\n'
)
_TEST: Final = "#!/bin/bash\n[ -f /tmp/done ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n"
_AGENT: Final = (
    '[agent]\nname = "caller"\nversion = "1"\nkind = "exec"\n[model]\ndeclared = "any"\n'
    '[run]\nbundle = "bundle"\ncommand = ["./run.py"]\n'
)
_PROGRAM: Final = """\
#!/usr/bin/env python3
import json, os, time, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
body = {"model": os.environ["ASSIZE_MODEL"], "messages": [{"role": "user", "content": "again"}]}
while not os.path.exists("/tmp/go"):
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
    except OSError:
        pass
    time.sleep(0.2)
open("/tmp/done", "w").close()
"""
_SCRIPT: Final = 'format = "assize.rehearsal/1"\n\n[[turn]]\nsay = "Again."\n'


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def make_files(folder: Path) -> None:
    """A pack of two tasks, the agent that spends, and what its model says."""
    for name in ("alpha", "beta"):
        _write(folder / "tasks" / name / "task.toml", _TASK)
        _write(folder / "tasks" / name / "instruction.md", f"Call until you are told ({name}).\n")
        _write(folder / "tasks" / name / "tests" / "test.sh", _TEST)
    _write(folder / "caller.toml", _AGENT)
    _write(folder / "bundle" / "run.py", _PROGRAM, 0o755)
    _write(folder / "again.toml", _SCRIPT)


@dataclass
class Hosts:
    """What a drill may do to two hosts, and what it can know of them."""

    folder: Path
    machine: Machine
    near: Engine
    far: OwnEngine
    installation: Installation
    here: dict[str, str]
    there: dict[str, str]
    processes: list[Forked] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    @property
    def home(self) -> Home:
        """The folder that both hosts share."""
        return self.installation.home

    def command(self, *arguments: str) -> list[str]:
        """The program with the drill's times, a script with its arguments."""
        return [str(Path(__file__).with_name("short.py")), json.dumps(TIMES), *arguments]

    def start_here(self, *arguments: str) -> Forked:
        """Start a command on the first host."""
        with (self.folder / "here.log").open("ab") as log:
            process = forks.start(
                self.command(*arguments),
                env=self.here,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                on_parent_death=signal.SIGKILL,
            )
        self.processes.append(process)
        return process

    def start_there(self, *arguments: str) -> Inmate:
        """Start a command on the second host."""
        command = [sys.executable, *self.command(*arguments)]
        return self.machine.start(command, self.there, self.folder / "there.log")

    def screen(self, *more: str) -> Forked:
        """Begin a screening of four tries, served by workers; the process signs, too."""
        order = ["screen", str(self.folder / "tasks"), "--agent", str(self.folder / "caller.toml")]
        order += ["--model", "rehearsal/rehearsal-openai", "--rehearse", str(self.folder / "again.toml")]
        return self.start_here(*order, "--tries", "2", "--steps", "100000", "--engine", "celery", *more)

    def soon(self, fact: Callable[[], bool], what: str) -> None:
        """Wait for a fact; what everybody said is in the message."""
        try:
            wait_until(fact, what, within_s=WITHIN_S)
        except AssertionError as error:
            said = [
                f"{one.name}\n{one.read_text(errors='replace')[-4000:]}" for one in self.folder.glob("*.log")
            ]
            raise AssertionError("\n".join([str(error), *said])) from None

    def spending(self, host: str) -> list[str]:
        """Live attempts of a host whose agents have made a call that was paid, by id."""
        query = (
            sa.select(Attempt.id)
            .join(HostOwner, HostOwner.id == Attempt.owner_id)
            .join(Worker, Worker.id == HostOwner.worker_id)
            .where(Attempt.state == AttemptState.LIVE, Attempt.phase == Phase.AGENT, Worker.host_name == host)
        )
        with self.installation.ledger.reading() as connection:
            live = list(connection.scalars(query))
        return [one for one in live if b'"kind":"settle"' in self.transcript(one)]

    def transcript(self, attempt_id: str) -> bytes:
        """What the relay of an attempt has written so far; empty before and after."""
        path = lane_folder(self.home.root / "relay", attempt_id, "agent") / "transcript.jsonl"
        return path.read_bytes() if path.exists() else b""

    def attempts(self) -> list[dict[str, Any]]:
        """Every attempt of every screening as plain rows, with its `spend` as `((payer, nusd), ...)`."""
        found = []
        for screening in queries.screenings(self.installation.ledger):
            for view in queries.tries(self.installation.ledger, screening["id"]):
                for one in queries.show_try(self.installation.ledger, view.row["id"]).attempts:
                    found.append({**one.row, "spend": one.spend, "screening": screening["id"]})
        return found

    def planned_starts(self) -> set[int]:
        """The instants before which no try of any screening may begin."""
        with self.installation.ledger.reading() as connection:
            return set(connection.scalars(sa.select(TrySlot.not_before_ms)))

    def attempt(self, attempt_id: str) -> dict[str, Any]:
        """One of them."""
        return next(one for one in self.attempts() if one["id"] == attempt_id)

    def kinds(self) -> Counter[str]:
        """How often what happened, over all screenings."""
        ledger = self.installation.ledger
        return Counter(
            event["kind"]
            for one in queries.screenings(ledger)
            for event in queries.history(ledger, one["id"])
        )

    def sandboxes(self, engine: Engine) -> list[str]:
        """Containers of this home's attempts in an engine; those of a worker that lives are not meant."""
        found = engine.api.containers(all=True, filters={"label": f"assize.home={self.installation.label}"})
        return [
            str(one["Id"]) for one in found if one["Labels"].get("assize.role") in ("agent", "grader", "pod")
        ]

    def finish(self, engine: Engine) -> None:
        """Tell every agent in an engine to finish."""
        filters = {"label": [f"assize.home={self.installation.label}", "assize.role=agent"]}
        for one in engine.api.containers(filters=filters):
            if one["Id"] in self.told:
                continue
            with suppress(APIError):  # it has just ended
                made = engine.api.exec_create(one["Id"], ["touch", "/tmp/go"])
                engine.api.exec_start(made["Id"])
                self.told.add(one["Id"])

    def finish_all(self, process: Forked) -> int:
        """Let every agent of both hosts finish until `process` has ended; its exit code."""

        def over() -> bool:
            if process.poll() is not None:
                return True
            for engine in (self.near, self.far.engine):
                self.finish(engine)
            return False

        self.soon(over, "the screening has come to its end")
        return process.wait()

    def finish_running(self) -> bool:
        """Let every agent finish; whether no try of any screening is open any more."""
        for engine in (self.near, self.far.engine):
            self.finish(engine)
        ledger = self.installation.ledger
        return all(queries.status(ledger, one["id"]).open == 0 for one in queries.screenings(ledger))

    def uncertified(self) -> int:
        """Ended attempts without a certificate."""
        query = (
            sa.select(sa.func.count())
            .select_from(Attempt)
            .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
            .where(Attempt.outcome.is_not(None), Certificate.id.is_(None))
        )
        with self.installation.ledger.reading() as connection:
            return int(connection.scalar(query) or 0)

    def screenings(self) -> list[str]:
        """Every screening by id."""
        return [one["id"] for one in queries.screenings(self.installation.ledger)]

    def bundles(self) -> int:
        """How many screenings have their bundle, which is written at their very end."""
        return len(list(self.home.certificates.glob("*/screening.zip")))

    def served_by(self, host: str) -> bool:
        """Whether a process of this name is registered and has not ended."""
        found = workers(self.installation.ledger, beat_ms=TIMES["beat_ms"])
        return any(one.host_name == host for one in found)

    def sound(self) -> Counter[str]:
        """What must hold after every drill; how many attempts ended for which reason."""
        ledger = self.installation.ledger
        assert violations(ledger) == []
        reasons: Counter[str] = Counter()
        attempts = self.attempts()
        for screening in queries.screenings(ledger):
            status = queries.status(ledger, screening["id"])
            assert status.open == 0 and screening["state"] == "complete", status
        counted = Counter(one["slot_id"] for one in attempts if one["state"] == AttemptState.RECORDED)
        assert set(counted.values()) == {1} and len(counted) == len({one["slot_id"] for one in attempts})
        for one in attempts:
            reasons[str(one["reason"])] += 1
            payer = "agent" if one["state"] == AttemptState.RECORDED else "platform"
            assert [who for who, _ in one["spend"]] == [payer], one
            assert self.transcript(one["id"]) == b"" or one["state"] == AttemptState.VOID
        for bundle in self.home.certificates.glob("*/screening.zip"):
            assert self.start_here("verify", str(bundle)).wait(WITHIN_S) in (0, 3)
        return reasons

    def left_there(self) -> list[str]:
        """What is left in the second engine."""
        return self.far.leftovers(self.installation.label)


@contextmanager
def two_hosts(folder: Path, near: Engine, image: str) -> Iterator[Hosts]:
    """Both hosts with their services, no worker yet; everything is gone afterwards."""
    make_files(folder)
    with ExitStack() as stack:
        machine = stack.enter_context(Machine(THERE))
        postgres = PostgresServer(address=machine.address)
        stack.callback(postgres.close)
        postgres.start()
        redis = RedisServer(appendonly=True, address=machine.address, password=PASSWORD)
        stack.callback(redis.close)
        redis.start()
        far = stack.enter_context(OwnEngine(near, image, inside=machine.inside))
        home = Home(folder / "home").prepare()
        shared_lock = Path(os.environ.get("ASSIZE_HOME", "")) / "images.lock.json"
        if shared_lock.is_file():
            shutil.copy(shared_lock, home.images_lock)
        near_url = postgres.new_database(upgrade)
        database = sa.engine.make_url(near_url).database
        role_url = f"postgresql+psycopg://lab_worker:{PASSWORD}@{machine.address}:{postgres.port}/{database}"
        for name, text in (("owner", near_url), ("role", role_url), ("broker", redis.url)):
            _write(folder / "secrets" / name, text, 0o600)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("ASSIZE_", "DOCKER_"))}
        shared = {
            **plain,
            "PYTHONPATH": str(ROOT),
            "ASSIZE_HOME": str(home.root),
            "ASSIZE_BROKER_FILE": str(folder / "secrets" / "broker"),
        }
        here = {**shared, "ASSIZE_DATABASE_URL_FILE": str(folder / "secrets" / "owner")}
        there = {
            **shared,
            "ASSIZE_DATABASE_URL_FILE": str(folder / "secrets" / "role"),
            "DOCKER_HOST": far.host,
        }
        opened = _opened(home, near_url)
        stack.callback(opened.close)
        assert roles.grant_worker(opened.ledger, "lab_worker", password=PASSWORD)
        # A shared folder without the one part that no worker host may see.
        hide = [*machine.inside, "mount", "-t", "tmpfs", "none", str(home.keys)]
        subprocess.run(hide, check=True, capture_output=True)
        # First of all it loses its power: nothing of it has to end in order.
        stack.callback(machine.power_off)
        hosts = Hosts(folder, machine, near, far, opened, here, there)
        stack.callback(_end, hosts)
        yield hosts


def _opened(home: Home, url: str) -> Installation:
    from orchestrator.evidence.store import EvidenceStore
    from orchestrator.ledger.migrate import open_ledger

    return Installation(home, open_ledger(url), EvidenceStore(home.evidence))


def _end(hosts: Hosts) -> None:
    for process in hosts.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    filters = {"label": f"assize.home={hosts.installation.label}"}
    for engine in (hosts.near, hosts.far.engine):
        with suppress(APIError, OSError):  # after a failed drill the second one may be away
            for one in engine.api.containers(all=True, filters=filters):
                engine.api.remove_container(one["Id"], force=True)
    for volume in hosts.near.api.volumes(filters=filters)["Volumes"] or []:
        hosts.near.api.remove_volume(volume["Name"], force=True)
