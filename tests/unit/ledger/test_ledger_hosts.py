"""Workers and hosts: who is there, what a host may claim, and that a file has one machine."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from orchestrator.engine.stub import plan_stub
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ledger import hosts
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.models import Worker
from orchestrator.ledger.owners import register
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import beat, claim_message, start
from orchestrator.ledger.window import fill, give_back, unsent
from tests.unit.ledger.conftest import ManualClock

Q = "try.c1m1.cpu1-mem1g"
BEAT = 20_000


def enter(ledger: Ledger, name: str = "lab-1", **options: Any) -> str:
    settings = {"host_name": name, "hardware_class": "cpu1-mem1g", "slots": 2, "queues": [Q], **options}
    return hosts.enter(ledger, WorkerRole.WORKER, **settings)


def test_windows_follow_the_present_workers(ledger: Ledger, clock: ManualClock) -> None:
    """4.5: twice the places of those that serve a queue; silent, ended, draining ones do not count."""
    assert hosts.capacity(ledger, beat_ms=BEAT) == {}
    first, second = enter(ledger), enter(ledger, "lab-2", slots=3, queues=[Q, "other"])
    assert hosts.capacity(ledger, beat_ms=BEAT) == {Q: 10, "other": 6}
    hosts.set_draining(ledger, "lab-1", True)
    assert hosts.capacity(ledger, beat_ms=BEAT) == {Q: 6, "other": 6}
    clock.now_ms += 3 * BEAT + 1
    assert hosts.capacity(ledger, beat_ms=BEAT) == {}
    assert hosts.present_beat(ledger, second, children=3) is False
    assert hosts.present_beat(ledger, first, children=2) is True
    assert hosts.capacity(ledger, beat_ms=BEAT) == {Q: 6, "other": 6}
    hosts.leave(ledger, second)
    assert hosts.capacity(ledger, beat_ms=BEAT) == {}


def test_a_draining_host_claims_nothing(ledger: Ledger) -> None:
    """Drain is a state of the host in the ledger: whoever asks, the claim says no; the beat tells."""
    screening = plan_stub(ledger, ["a", "b"], tries=1, engine=EngineName.CELERY, queue=Q)
    start(ledger, screening, who="test")
    worker_id = enter(ledger)
    owner = register(ledger, worker_id)
    first, second = fill(ledger, {Q: 2}, who="d")
    held = claim_message(ledger, first.slot_id, 1, owner.id, lease_ms=9_000, worker_id=worker_id)
    assert held is not None and not beat(ledger, owner.id, {}, lease_ms=9_000).draining
    assert hosts.set_draining(ledger, "lab-1", True) and not hosts.set_draining(ledger, "lab-1", True)
    assert claim_message(ledger, second.slot_id, 1, owner.id, lease_ms=9_000, worker_id=worker_id) is None
    assert beat(ledger, owner.id, {}, lease_ms=9_000).draining
    assert give_back(ledger, second.slot_id, 1, draining=worker_id) and unsent(ledger) == [second]
    assert hosts.set_draining(ledger, "lab-1", False)
    assert not give_back(ledger, second.slot_id, 1, draining=worker_id)
    assert claim_message(ledger, second.slot_id, 1, owner.id, lease_ms=9_000, worker_id=worker_id) is not None


def test_the_list_says_what_each_does(ledger: Ledger, clock: ManualClock) -> None:
    """Section 8: running, refused, last claim, sweep and reap per process."""
    screening = plan_stub(ledger, ["a"], tries=1, engine=EngineName.CELERY, queue=Q)
    start(ledger, screening, who="test")
    worker_id = enter(ledger)
    (message,) = fill(ledger, {Q: 2}, who="d")
    clock.now_ms += 7
    owner = register(ledger, worker_id)
    claim_message(ledger, message.slot_id, 1, owner.id, lease_ms=9_000, worker_id=worker_id)
    hosts.count_refusal(ledger, worker_id)
    hosts.present_beat(ledger, worker_id, children=2, swept=True)
    (view,) = hosts.workers(ledger, beat_ms=BEAT)
    assert (view.running, view.refused, view.children, view.present) == (1, 1, 2, True)
    assert view.claimed_ms == view.swept_ms == clock.now_ms and view.reaped_ms is None
    hosts.leave(ledger, worker_id)
    assert hosts.workers(ledger, beat_ms=BEAT) == []
    assert [one.present for one in hosts.workers(ledger, beat_ms=BEAT, ended=True)] == [False]


def test_the_dead_are_buried(ledger: Ledger) -> None:
    """A worker that was killed does not stand in the list for ever; one that cannot be seen does."""
    dead, living, far = enter(ledger), enter(ledger), enter(ledger)
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(Worker).where(Worker.id == dead).values(pid_started="1"))
        connection.execute(sa.update(Worker).where(Worker.id == far).values(machine="x", boot_id="y"))
    assert hosts.bury(ledger) == 1
    assert {one.id for one in hosts.workers(ledger, beat_ms=BEAT)} == {living, far}


@pytest.mark.parametrize("table", ["worker", "host_owner"])
def test_a_file_has_one_machine(ledger: Ledger, table: str) -> None:
    """Section 7: SQLite never on a network file system; a second machine is refused in a sentence."""
    enter(ledger)
    register(ledger)
    column = "machine" if table == "worker" else "host"
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql(f"UPDATE {table} SET {column} = 'elsewhere'")
    if ledger.engine.dialect.name == "postgresql":
        assert enter(ledger)
        return
    with pytest.raises(UsageError, match="another machine") as caught:
        enter(ledger)
    assert "PostgreSQL" in str(caught.value.hint)


def test_only_a_known_host_can_be_drained(ledger: Ledger) -> None:
    """A slip of the pen must not leave a host undrained in silence."""
    enter(ledger)
    with pytest.raises(NotFoundError, match="lab-9") as caught:
        hosts.set_draining(ledger, "lab-9", True)
    assert "lab-1" in str(caught.value.hint)
    assert not hosts.is_draining(ledger, "lab-9")
