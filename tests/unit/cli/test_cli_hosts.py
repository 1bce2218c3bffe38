"""Commands of campaigns on many hosts that need neither broker nor engine: steering, workers, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from orchestrator.cli.main import main
from orchestrator.engine.stub import plan_stub
from orchestrator.home import Home
from orchestrator.ledger import hosts, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.owners import register
from orchestrator.ledger.providers import set_limits
from orchestrator.ledger.transitions import claim, queue, start

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("ASSIZE_BROKER_URL", "ASSIZE_BROKER_FILE", "ASSIZE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(home.root), *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture
def screening(ledger: Ledger) -> str:
    made = plan_stub(ledger, ["a", "b"], tries=2)
    start(ledger, made, who="test")
    return made


def test_pause_resume_cancel(run: Run, ledger: Ledger, screening: str) -> None:
    """4.3: kept in the database, said in a sentence, harmless to repeat; cancel is for good."""
    assert run("pause", screening[:12]) == (0, f"{screening}: paused\n", "")
    assert run("pause", screening)[1] == f"{screening}: was paused already\n"
    assert run("resume", screening)[1] == f"{screening}: goes on\n"
    code, out, _ = run("cancel", screening, "--json")
    assert code == 0 and json.loads(out) == {
        "schema": "assize.steered/1",
        "screening": screening,
        "state": "cancelled",
        "stop_reason": "cancelled",
        "done": "4 tries cancelled",
    }
    code, _, err = run("resume", screening)
    assert code != 0 and "cancelled" in err and len(err.splitlines()) <= 2
    assert queries.screening(ledger, screening)["state"] == "cancelled"


def test_workers_are_listed_and_drained(run: Run, ledger: Ledger) -> None:
    """Who serves what, and a drain that is kept in the ledger."""
    assert "No workers" in run("worker", "list")[1]
    hosts.enter(
        ledger, WorkerRole.WORKER, host_name="lab-1", slots=3, queues=["q"], hardware_class="cpu1-mem1g"
    )
    assert run("worker", "drain", "lab-1") == (0, "lab-1: draining\n", "")
    assert run("worker", "drain", "lab-1")[1] == "lab-1: draining already\n"
    code, out, _ = run("worker", "list", "--json")
    (worker,) = json.loads(out)["workers"]
    assert code == 0 and worker["state"] == "draining" and worker["slots"] == 3
    assert run("worker", "undrain", "lab-1")[1] == "lab-1: serving\n"
    assert "serving" in run("worker", "list")[1]
    code, _, err = run("worker", "drain", "lab-2")
    assert code == 2 and "lab-2" in err and "lab-1" in err


def test_watching_shows_the_hosts(ledger: Ledger, home: Home) -> None:
    """`assize status --watch`: who works is below what is worked on, and nothing where nobody does."""
    from orchestrator.cli.status import host_lines

    assert host_lines(ledger) == host_lines(None) == []
    hosts.enter(ledger, WorkerRole.WORKER, host_name="lab-1", slots=3, queues=["q"])
    text = "\n".join(host_lines(ledger))
    assert "lab-1" in text and "0/3" in text and "serving" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("worker", "run"), "no broker is named"),
        (("worker", "run", "--broker", "amqp://guest:secret@h//"), "no broker of ours"),
        (("worker", "run", "--broker-file", "/nonexistent/broker"), "cannot be read"),
        (("worker", "run", "--broker", "redis://h/0", "--hardware-class", "gpu"), "says no sizes"),
        (("worker", "run", "--broker", "redis://h/0", "--slots", "0"), "--slots"),
        (("dispatch",), "no broker is named"),
        (("screen", "coding-core", "--agent", "nop", "--engine", "celery"), "no broker is named"),
        (("screen", "coding-core", "--agent", "nop", "--broker", "redis://h/0"), "many hosts"),
        (
            ("screen", "coding-core", "--agent", "nop", "--engine", "celery", "--parallel", "2"),
            "this machine alone",
        ),
        (("metrics", "--listen", "here"), "no HOST:PORT"),
        (("pause", "01ABC"), "there is no screening"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(run: Run, arguments: tuple[str, ...], says: str) -> None:
    """Exit 2, one sentence and a hint, no password, no traceback, nothing written."""
    code, out, err = run(*arguments)
    assert code == 2 and says in err and "secret" not in err and "Traceback" not in err
    assert out == "" and len(err.splitlines()) <= 2


@pytest.mark.only_on("sqlite", "a server may have workers of many machines")
def test_a_file_with_a_worker_of_another_machine_is_refused(run: Run, ledger: Ledger) -> None:
    """Section 7: `--engine celery` with a SQLite URL and workers of another host."""
    hosts.enter(ledger, WorkerRole.WORKER, host_name="lab-1", slots=3, queues=["q"])
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE worker SET machine = 'elsewhere'")
    code, _, err = run("worker", "run", "--broker", "redis://127.0.0.1:1/0")
    assert code == 2 and "another machine" in err and "PostgreSQL" in err


def test_figures_once(run: Run, ledger: Ledger, screening: str) -> None:
    """`assize metrics --once` for a look without a server."""
    code, out, _ = run("metrics", "--once")
    assert code == 0 and f'assize_slots{{screening="{screening}",state="planned"}} 4.0' in out


def test_a_full_provider_is_shown(run: Run, ledger: Ledger) -> None:
    """Why nothing more starts: in the details of a screening, for people and programs."""
    made = plan_stub(ledger, ["a", "b"], tries=2, providers=["openai"])
    start(ledger, made, who="test")
    set_limits(ledger, {"openai": 3, "google": 1})
    queue(ledger, made, 9)
    owner = register(ledger).id
    assert all(claim(ledger, made, owner, lease_ms=60_000) for _ in range(3))
    assert "providers     openai has 3 of 3 tries at a time" in run("status", made)[1]
    data = json.loads(run("status", made, "-o", "json")[1])
    assert data["providers"] == [{"provider": "openai", "busy": 3, "most": 3}]
