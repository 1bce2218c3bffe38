"""`assize worker health`: facts of the ledger and of the host, each of which alone can say no."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from orchestrator.engine.celery.health import NO_CLAIM_MS, Seen, judge, look
from orchestrator.engine.celery.times import Times
from orchestrator.engine.celery.worker import Worker as CeleryWorker
from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import hosts, owners, window
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole, WorkerView
from orchestrator.ledger.models import TrySlot, Worker
from orchestrator.ledger.owners import Liveness, ProcessIdentity
from orchestrator.ledger.presence import Presence, newest
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import hand_to, start
from tests.assets.services.own import wait_until

TWO_CHILDREN = """
import os, time
for _ in range(2):
    os.fork() or time.sleep(600)
time.sleep(600)
"""
TIMES = Times()
NOW = 10_000_000
VIEW = WorkerView(
    id="w",
    role=WorkerRole.WORKER,
    host_name="lab",
    hardware_class="",
    slots=2,
    queues=("try.c1m1",),
    children=2,
    running=0,
    refused=0,
    draining=False,
    started_ms=NOW - 3_600_000,
    beaten_ms=NOW - 20_000,
    claimed_ms=NOW - 20_000,
    swept_ms=NOW - 40_000,
    reaped_ms=NOW - 20_000,
    ended_ms=None,
    present=True,
)
WELL = Presence(VIEW, ProcessIdentity("m", "b", "p", 1, "1"), NOW, None)
SEEN = Seen(Liveness.ALIVE, 2)


def bad(presence: Presence | None, seen: Seen | None = SEEN) -> list[str]:
    return [one.name for one in judge(presence, seen, TIMES) if not one.holds]


def of(**changes: object) -> Presence:
    return replace(WELL, view=replace(VIEW, **changes))  # type: ignore[arg-type]


def test_a_worker_that_does_its_work_is_healthy() -> None:
    assert bad(WELL) == []


def test_who_is_not_in_the_ledger_is_not_healthy() -> None:
    assert bad(None, None) == ["registered"]


def test_a_worker_that_waits_for_the_end_of_a_drain_is_healthy() -> None:
    """It ended in good order, was started again by its service manager, and has not entered yet."""
    assert all(one.holds for one in judge(None, None, TIMES, draining=True))


def test_a_pool_that_is_not_made_yet_has_no_children() -> None:
    """The keeper's first beat comes before the pool: it was lost for it, with an error in the log."""
    worker = object.__new__(CeleryWorker)
    for pool in (None, SimpleNamespace(pool=None), SimpleNamespace(pool=SimpleNamespace(_pool=None))):
        worker._pool = pool
        assert worker._children() == 0
    inner = SimpleNamespace(_pool=[SimpleNamespace(pid=os.getpid())])
    worker._pool = SimpleNamespace(pool=SimpleNamespace(_pool=inner))
    assert worker._children() == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beaten_ms": NOW - 60_001}, ["beat"]),
        ({"beaten_ms": NOW - 60_000}, []),
        ({"swept_ms": None}, ["swept"]),
        ({"swept_ms": NOW - 120_001}, ["swept"]),
        ({"reaped_ms": NOW - 65_001}, ["reaped"]),
        ({"reaped_ms": None}, ["reaped"]),
    ],
)
def test_every_round_has_its_time(changes: dict[str, object], said: list[str]) -> None:
    assert bad(of(**changes)) == said


def test_children_are_those_of_the_host_where_they_can_be_seen() -> None:
    """The main process may have told the ledger of two a moment ago."""
    assert bad(WELL, Seen(Liveness.ALIVE, 1)) == ["children"]
    assert bad(WELL, Seen(Liveness.UNKNOWN, None)) == []
    assert bad(of(children=0), Seen(Liveness.UNKNOWN, None)) == ["children"]


def test_a_dead_process_is_seen_at_once() -> None:
    assert "alive" in bad(WELL, Seen(Liveness.DEAD, None))


@pytest.mark.parametrize(
    ("waiting", "changes", "said"),
    [
        (NO_CLAIM_MS - 1, {"claimed_ms": None}, []),
        (NO_CLAIM_MS, {"claimed_ms": NOW - NO_CLAIM_MS}, ["claims"]),
        (NO_CLAIM_MS, {"claimed_ms": None}, ["claims"]),
        (NO_CLAIM_MS, {"claimed_ms": None, "started_ms": NOW - 1_000}, []),
        (NO_CLAIM_MS, {"claimed_ms": NOW - 1_000}, []),
        (NO_CLAIM_MS, {"claimed_ms": NOW - NO_CLAIM_MS, "running": 2}, []),
        (NO_CLAIM_MS, {"claimed_ms": NOW - NO_CLAIM_MS, "draining": True}, []),
    ],
)
def test_claims_happen_or_there_is_nothing_to_claim(
    waiting: int, changes: dict[str, object], said: list[str]
) -> None:
    """A worker that beats and takes nothing is not healthy (section 8)."""
    assert bad(replace(of(**changes), waiting_ms=waiting)) == said


def test_a_dispatcher_has_no_children_and_claims_nothing() -> None:
    presence = replace(of(role=WorkerRole.DISPATCHER, slots=0, claimed_ms=None), waiting_ms=NO_CLAIM_MS)
    assert bad(presence, Seen(Liveness.ALIVE, 0)) == []


def test_the_newest_process_of_the_role_is_asked_about(ledger: Ledger) -> None:
    """A killed one is not buried yet, a dispatcher of the same host is another matter."""
    old = hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=2)
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(Worker).where(Worker.id == old).values(started_ms=Worker.started_ms - 1))
    new = hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=2, queues=("q",))
    hosts.enter(ledger, WorkerRole.DISPATCHER, host_name="lab")
    hosts.enter(ledger, WorkerRole.WORKER, host_name="other")
    found = newest(ledger, "lab", WorkerRole.WORKER, beat_ms=TIMES.beat_ms)
    assert found is not None and found.view.id == new and found.waiting_ms is None
    assert found.process == owners.this_process()
    hosts.leave(ledger, new)
    hosts.leave(ledger, old)
    assert newest(ledger, "lab", WorkerRole.WORKER, beat_ms=TIMES.beat_ms) is None


def test_how_long_a_try_waits_is_asked_of_the_queues_of_the_worker(ledger: Ledger) -> None:
    """Only what it serves, only what was told to workers, only of screenings that run on them."""
    hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=1, queues=("try.mine",))

    def waiting() -> int | None:
        found = newest(ledger, "lab", WorkerRole.WORKER, beat_ms=TIMES.beat_ms)
        assert found is not None
        return found.waiting_ms

    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    hand_to(ledger, screening, EngineName.CELERY, who="test")
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(TrySlot).values(queue="try.mine"))
    assert waiting() is None, "planned, and not told to anybody"
    (message,) = window.fill(ledger, {"try.mine": 1}, who="test")
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(TrySlot).values(updated_ms=TrySlot.updated_ms - 400_000))
    assert message.queue == "try.mine" and 400_000 <= (waiting() or 0) < 500_000
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(TrySlot).values(queue="try.other"))
    assert waiting() is None, "somebody else's"


def test_children_that_were_killed_are_gone_though_their_parent_is_frozen() -> None:
    """Nobody buries them then; a dead child that is not buried is no child."""
    parent = subprocess.Popen([sys.executable, "-c", TWO_CHILDREN], start_new_session=True)
    try:
        wait_until(lambda: owners.children_of(parent.pid) == 2, "two children")
        parent.send_signal(signal.SIGSTOP)
        for name in (one for one in os.listdir("/proc") if one.isdecimal()):
            fields = owners._fields(name)
            if fields[1:2] == [str(parent.pid)]:
                os.kill(int(name), signal.SIGKILL)
        wait_until(lambda: owners.children_of(parent.pid) == 0, "no child that runs")
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def test_the_own_process_is_alive_and_seen(ledger: Ledger) -> None:
    hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=1)
    found = newest(ledger, "lab", WorkerRole.WORKER, beat_ms=TIMES.beat_ms)
    assert found is not None
    seen = look(found)
    assert seen.liveness is Liveness.ALIVE and seen.children is not None
