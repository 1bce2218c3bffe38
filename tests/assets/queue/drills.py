"""Injuries to a running campaign (reference/distribution.md section 1), each with what must come of it.

Every drill waits for facts. What holds after all of them is in `Lab.sound`: the invariants, every slot
exactly once, nothing paid twice.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from orchestrator.ledger import hosts, queries
from orchestrator.ledger.db import sqlite_file
from orchestrator.ledger.providers import set_limits
from orchestrator.ledger.states import SlotState
from tests.assets.queue.lab import QUEUE, Lab
from tests.assets.services.postgres import PostgresServer
from tests.assets.services.redis import RedisServer


@dataclass
class Scene:
    """What a drill may injure; `postgres` is its own server, where it needs one."""

    lab: Lab
    redis: RedisServer
    postgres: PostgresServer | None = None


def _running(lab: Lab, screening: str) -> int:
    return queries.status(lab.ledger, screening).slots[SlotState.RUNNING]


def _recorded(lab: Lab, screening: str) -> int:
    return queries.status(lab.ledger, screening).slots[SlotState.RECORDED]


def kill_child(scene: Scene) -> None:
    """kill -9 of a pool process: seen at once by its parent, one re-run."""
    lab = scene.lab
    lab.plan(["a", "b"], tries=1)
    worker = lab.worker(hold=True)
    lab.begun(2)
    os.kill(lab.children(worker)[0], signal.SIGKILL)
    lab.begun(3)
    lab.go()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 2, "worker_lost": 1}


def kill_main(scene: Scene) -> None:
    """kill -9 of the whole worker; the next one takes over at its first look, without waiting for leases."""
    lab = scene.lab
    lab.plan(["a", "b", "c"], tries=1)
    worker = lab.worker(hold=True)
    lab.begun(2)
    worker.kill()
    worker.wait()
    lab.go()
    lab.worker()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 3, "worker_lost": 2}


def sigterm(scene: Scene) -> None:
    """A warm shutdown lets running tries end and starts none; another worker goes on."""
    lab = scene.lab
    screening = lab.plan(["a", "b", "c", "d"], tries=1)
    worker = lab.worker(hold=True)
    lab.begun(2)
    worker.send_signal(signal.SIGTERM)
    lab.until(lambda: "Warm shutdown" in lab.errors(), "the worker has heard")
    lab.go()
    assert worker.wait(60) == 0
    assert _recorded(lab, screening) == 2 and len(lab.log("begin")) == 2
    lab.worker()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}


def sigterm_then_sigquit(scene: Scene) -> None:
    """A cold shutdown ends running tries: they are lost to the platform and run again."""
    lab = scene.lab
    lab.plan(["a", "b", "c"], tries=1)
    worker = lab.worker(hold=True)
    lab.begun(2)
    worker.send_signal(signal.SIGTERM)
    lab.until(lambda: "Warm shutdown" in lab.errors(), "the worker has heard")
    worker.send_signal(signal.SIGQUIT)
    worker.wait(60)
    lab.go()
    lab.worker()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 3, "worker_lost": 2}


def soft_shutdown(scene: Scene) -> None:
    """A cold shutdown that waits a moment: what does not end in it is lost to the platform and runs again."""
    lab = scene.lab
    lab.plan(["a", "b", "c"], tries=1)
    worker = lab.worker(hold=True, changes={"worker_soft_shutdown_timeout": 1.0})
    lab.begun(2)
    worker.send_signal(signal.SIGQUIT)
    worker.wait(60)
    assert len(lab.log("begin")) == 2
    lab.go()
    lab.worker()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 3, "worker_lost": 2}


def redis_restart(scene: Scene) -> None:
    """Redis goes and comes back with what it had; running tries do not notice."""
    lab = scene.lab
    lab.plan(["a", "b", "c", "d", "e", "f"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    scene.redis.stop()
    lab.go()
    lab.until(lambda: len(lab.log("end")) >= 2, "running tries end without a broker")
    scene.redis.start()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 6}
    assert len(lab.log("begin")) == 6


def redis_wiped(scene: Scene) -> None:
    """Redis is killed and comes back empty: the sweeper tells again what was waiting there."""
    lab = scene.lab
    lab.plan(["a", "b", "c", "d", "e", "f"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    scene.redis.kill()
    scene.redis.start()
    scene.redis.wipe()
    lab.go()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 6}


def redis_frozen(scene: Scene) -> None:
    """Redis does not answer for longer than every lease: no try is voided, none runs twice."""
    lab = scene.lab
    screening = lab.plan(["a", "b", "c", "d"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    scene.redis.freeze()
    lab.pass_leases(2)
    lab.go()
    lab.until(lambda: _recorded(lab, screening) == 2, "running tries are recorded without a broker")
    scene.redis.thaw()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}
    assert len(lab.log("begin")) == 4


def connections_dropped(scene: Scene) -> None:
    """Every connection to Redis is cut, twice: with early acknowledgement nothing runs again."""
    lab = scene.lab
    screening = lab.plan(["a", "b", "c", "d"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    assert scene.redis.drop_connections() > 0
    lab.until(lambda: scene.redis.drop_connections() > 0, "the worker connects again")
    assert _running(lab, screening) == 2
    lab.go()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}
    assert len(lab.log("begin")) == 4


def second_worker(scene: Scene) -> None:
    """A worker that joins takes what is queued and nothing that runs."""
    lab = scene.lab
    lab.plan(["a", "b", "c", "d"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    lab.worker(hold=True, host_name="second")
    lab.begun(4)
    lab.go()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}
    assert len(lab.log("begin")) == 4


def triple_delivery(scene: Scene) -> None:
    """Every message three times more: each slot runs once, the rest is refused quietly and counted."""
    lab = scene.lab
    lab.plan(["a", "b", "c", "d"], tries=1)
    lab.worker(hold=True)
    lab.begun(2)
    assert lab.publish(times=3) == 12
    lab.go()
    lab.closed()
    lab.until(lambda: sum(one.refused for one in _workers(lab)) >= 12, "the duplicates were refused")
    assert lab.sound() == {"all_checks_passed": 4}
    assert len(lab.log("begin")) == 4


def _workers(lab: Lab) -> list[hosts.WorkerView]:
    return hosts.workers(lab.ledger, beat_ms=lab.times.beat_ms, ended=True)


def _writable(url: str, within_s: float) -> bool:
    """Whether nobody keeps the one lock of an SQLite file; other databases have one for each row."""
    file = sqlite_file(url)
    if file is None:
        return True
    with closing(sqlite3.connect(file, timeout=within_s, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # locked
            return False
        return True


def _freeze_between_writes(lab: Lab, pid: int) -> None:
    """Stop a child that holds no lock: while one stands still amid a write to an SQLite file, nobody writes
    anything, so nobody sees its lease pass (docs/database.md)."""
    os.kill(pid, signal.SIGSTOP)
    while not _writable(lab.url, 1.0):
        os.kill(pid, signal.SIGCONT)
        assert _writable(lab.url, 60.0)
        os.kill(pid, signal.SIGSTOP)


def child_frozen(scene: Scene) -> None:
    """A child stands still for longer than its lease and goes on: its record is refused by its token."""
    lab = scene.lab
    screening = lab.plan(["a", "b"], tries=1)
    worker = lab.worker(slots=3, hold=True, deaf=True)
    lab.begun(2)
    frozen = lab.children(worker)[0]
    _freeze_between_writes(lab, frozen)
    lab.begun(3)  # its slot, in another child: the reaper saw the lease stand still
    lab.go()
    os.kill(frozen, signal.SIGCONT)
    lab.closed()
    lab.until(lambda: len(lab.log("end")) == 3, "the zombie ends too")
    lab.until(lambda: "refused" in lab.kinds(screening), "the zombie's record is refused")
    assert lab.kinds(screening).count("claimed") == 3
    assert lab.sound() == {"all_checks_passed": 2, "worker_lost": 1}


def hard_time_limit(scene: Scene) -> None:
    """Attempts that nothing else ends: killed from outside, run again R times, then uncountable."""
    lab = scene.lab
    screening = lab.plan(["a"], tries=1, limit_ms=1_000)
    lab.worker(slots=1, hold=True, deaf=True)
    lab.closed()
    assert len(lab.log("begin")) == 3
    assert queries.status(lab.ledger, screening).slots[SlotState.UNCOUNTABLE] == 1
    assert lab.sound() == {"worker_lost": 3}


def database_outage(scene: Scene) -> None:
    """The database is away for three leases while tries run: none is voided, all are recorded after it."""
    lab, server = scene.lab, scene.postgres
    assert server is not None
    lab.plan(["a", "b", "c", "d"], tries=1)
    lab.worker(hold=True)
    lab.worker(slots=1, hold=True, host_name="second")
    lab.begun(3)
    server.stop()
    lab.go()
    lab.until(lambda: len(lab.log("end")) >= 3, "running tries end without a database")
    lab.pass_leases(3)
    server.start()
    lab.ledger.engine.dispose()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}
    assert len(lab.log("begin")) == 4


def drained(scene: Scene) -> None:
    """A draining host lets its tries end, claims nothing, exits; undrained it goes on where it was.

    A worker that is stopped before it serves ends in good order, too.
    """
    lab = scene.lab
    screening = lab.plan(["a", "b", "c", "d"], tries=1)
    worker = lab.worker(hold=True)
    lab.begun(2)
    assert hosts.set_draining(lab.ledger, "drill", True)
    lab.publish()
    lab.until(lambda: "Warm shutdown" in lab.errors(), "the worker has heard")
    lab.go()
    assert worker.wait(60) == 0
    assert _recorded(lab, screening) == 2 and len(lab.log("begin")) == 2
    waits = lab.worker(says="host drill is draining")
    waits.send_signal(signal.SIGTERM)
    assert waits.wait(60) == 0
    assert hosts.set_draining(lab.ledger, "drill", False)
    lab.worker()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}


def other_queue(scene: Scene) -> None:
    """A worker takes only from its own queues, and nothing is sent where nobody listens."""
    lab = scene.lab
    screening = lab.plan(["a", "b"], tries=1)
    lab.worker(queues=["try.c64m64.cpu64-mem64g"])
    lab.plan(["c"], tries=1, name="other", queue="try.c64m64.cpu64-mem64g")
    lab.until(lambda: _recorded(lab, lab.screenings[1]) == 1, "its own queue is served")
    assert queries.status(lab.ledger, screening).slots[SlotState.PLANNED] == 2
    lab.worker(queues=[QUEUE], host_name="second")
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 3}


def engine_away(scene: Scene) -> None:
    """A host whose engine does not answer claims nothing, and hands on what it was told of."""
    lab = scene.lab
    screening = lab.plan(["a", "b"], tries=1)
    (lab.folder / "away.drill").touch()
    away = lab.worker(slots=1)
    lab.until(lambda: "does not answer" in lab.errors(), "it has seen a message and its engine")
    assert _running(lab, screening) == 0
    lab.worker(host_name="second")
    lab.closed()
    assert lab.children(away) == [] and len(lab.log("begin")) == 2
    lab.plan(["c", "d", "e", "f"], tries=1, name="after")
    (lab.folder / "away.drill").unlink()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 6}


def host_full(scene: Scene) -> None:
    """A host with places to spare and no cores claims no more; the next host takes what it handed on."""
    lab = scene.lab
    screening = lab.plan(["a", "b", "c", "d"], tries=1, needs=(600, 100))
    lab.worker(slots=3, hold=True)
    lab.begun(1)
    lab.pass_leases(1)  # time for its other places to do wrong
    assert _running(lab, screening) == 1 == len(lab.log("begin"))
    lab.worker(slots=3, hold=True, host_name="second")
    lab.begun(2)
    lab.go()
    lab.closed()
    assert lab.sound() == {"all_checks_passed": 4}
    assert lab.kinds(screening).count("claimed") == 4


def provider_limit(scene: Scene) -> None:
    """Two hosts with free places, two screenings, one provider: never more tries at once than it may have."""
    lab = scene.lab
    set_limits(lab.ledger, {"crowded": 3})
    screenings = [
        lab.plan(["a", "b", "c"], tries=1, name=name, providers=["crowded"]) for name in ("one", "two")
    ]
    lab.plan(["a"], tries=1, name="free")
    lab.worker(slots=3, hold=True)
    lab.worker(slots=3, hold=True, host_name="second")
    lab.begun(4)
    lab.pass_leases(1)  # time for every dispatcher to do wrong
    busy = [queries.status(lab.ledger, one).slots for one in screenings]
    assert sum(one[SlotState.RUNNING] + one[SlotState.QUEUED] for one in busy) == 3
    # A lease of these drills is short: a busy machine may lose one, and runs that try again.
    begun = len(lab.log("begin"))
    assert 4 <= begun <= 4 + lab.lost(), lab.log()
    lab.go()
    lab.closed()
    ends = lab.sound()
    assert ends["all_checks_passed"] == 7 and set(ends) <= {"all_checks_passed", "worker_lost"}, ends


DRILLS: Final[dict[str, Callable[[Scene], None]]] = {
    one.__name__: one
    for one in (
        kill_child,
        kill_main,
        sigterm,
        sigterm_then_sigquit,
        soft_shutdown,
        redis_restart,
        redis_wiped,
        redis_frozen,
        connections_dropped,
        second_worker,
        triple_delivery,
        child_frozen,
        hard_time_limit,
        database_outage,
        drained,
        engine_away,
        other_queue,
        provider_limit,
        host_full,
    )
}
"""Every drill by its name."""
