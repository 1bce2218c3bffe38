"""`assize worker health`: what it says, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable

import pytest

from orchestrator.cli.main import main
from orchestrator.home import Home
from orchestrator.ledger import hosts
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("ASSIZE_DATABASE_URL", raising=False)

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(home.root), "worker", "health", *arguments])
        return int(ended.value.code or 0), capsys.readouterr().out

    return call


def test_without_a_ledger_or_a_worker_it_says_no(run: Run) -> None:
    """Nothing is made by asking."""
    code, said = run()
    assert code == 1 and "NOT healthy" in said and "BAD registered" in said


def test_a_dispatcher_that_went_round_is_healthy(run: Run, ledger: Ledger) -> None:
    """The default name is this host's, as that of `assize dispatch`."""
    own = hosts.enter(ledger, WorkerRole.DISPATCHER, host_name=platform.node())
    hosts.present_beat(ledger, own, swept=True, reaped=True)
    code, said = run("--role", "dispatcher", "--json")
    data = json.loads(said)
    assert (code, data["healthy"], data["role"]) == (0, True, "dispatcher")
    assert [one["name"] for one in data["checks"]] == ["registered", "alive", "beat", "reaped", "swept"]
    assert run()[0] == 1, "that is no worker"


def test_a_worker_without_children_is_not_healthy(run: Run, ledger: Ledger) -> None:
    own = hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=500)
    hosts.present_beat(ledger, own, children=500, swept=True, reaped=True)
    code, said = run("--name", "lab")
    bad = [line for line in said.splitlines() if "BAD" in line]
    assert code == 1 and len(bad) == 1 and " of 500" in bad[0]


def test_a_drained_host_waits_in_good_health(run: Run, ledger: Ledger) -> None:
    """Its worker ended and was started again: it enters when the host is undrained."""
    hosts.leave(ledger, hosts.enter(ledger, WorkerRole.WORKER, host_name="lab"))
    assert run("--name", "lab")[0] == 1
    hosts.set_draining(ledger, "lab", True)
    code, said = run("--name", "lab")
    assert code == 0 and "draining" in said
