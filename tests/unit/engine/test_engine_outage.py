"""The database goes away for three leases while attempts run: nobody is voided for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.engine import local
from orchestrator.engine.base import Callbacks, Refused, Salvage, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.engine.takeover import LeaseWatch, take_over
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger, upgrade
from orchestrator.ledger.models import HostOwner
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import Claim, beat, claim, queue, start
from orchestrator.observations import Observations
from tests.assets.services.own import wait_until
from tests.assets.services.postgres import PostgresServer

LEASE_MS, BEAT_MS = 900, 100


def elsewhere(ledger: Ledger) -> None:
    """Make every owner one of another host, whose processes nobody here can see."""
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(HostOwner).values(host="elsewhere", boot_id="another-boot"))


class Reaper(threading.Thread):
    """Looks at the leases from another host, as often as a worker beats, whatever the database says."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__(daemon=True)
        self.ledger = open_ledger(url)
        self.settings = settings
        self.ended = threading.Event()
        self.looks = 0
        self.refused = 0
        self.voided: list[Any] = []

    def run(self) -> None:
        watch = LeaseWatch(self.settings.lease_ms)
        callbacks = Callbacks(StubAttempt(), stub_order)
        while not self.ended.wait(self.settings.beat_ms / 1000):
            try:
                self.voided += take_over(self.ledger, callbacks, watch, who="reaper")
                self.looks += 1
            except OperationalError:
                self.refused += 1

    def close(self) -> None:
        self.ended.set()
        self.join(60)
        self.ledger.close()


@pytest.fixture
def reaper(own_postgres: PostgresServer) -> Iterator[Reaper]:
    url = own_postgres.new_database(upgrade)
    made = Reaper(url, Settings(lease_ms=LEASE_MS, beat_ms=BEAT_MS, idle_ms=20, back_off_ms=0))
    yield made
    made.close()


def test_an_outage_of_three_leases_voids_nothing(own_postgres: PostgresServer, reaper: Reaper) -> None:
    """Section 10, item 5: the workers come back within the grace, and every attempt counts."""
    ledger = reaper.ledger
    screening = plan_stub(ledger, ["a", "b"], tries=1)
    inside, go = threading.Barrier(3), threading.Event()

    def gate(_order: AttemptOrder, _control: AttemptControl) -> None:
        inside.wait(60)
        assert go.wait(60)

    worker = open_ledger(ledger.engine.url)
    engine = LocalEngine(worker, Callbacks(StubAttempt(gate=gate), stub_order), reaper.settings)
    results: list[Any] = []
    run = threading.Thread(target=lambda: results.append(engine.run([screening], 2)), daemon=True)
    run.start()
    inside.wait(60)
    elsewhere(ledger)
    reaper.start()
    wait_until(lambda: reaper.looks >= 3, "the reaper watches the leases")

    own_postgres.stop()
    refused = reaper.refused
    # The one thing that is waited for here is time itself: an outage of three leases.
    assert not reaper.ended.wait(3 * LEASE_MS / 1000)
    assert reaper.refused > refused and reaper.voided == []
    own_postgres.start()

    looks = reaper.looks
    wait_until(lambda: reaper.looks >= looks + 3 * LEASE_MS // BEAT_MS, "the reaper had time to void")
    go.set()
    run.join(60)
    reaper.close()
    (result,) = results
    assert (result.attempts, dict(result.states)) == (2, {screening: "complete"})
    assert reaper.voided == []
    status = queries.status(worker, screening)
    assert (status.reruns, status.interruptions, status.platform_nusd) == (0, 0, 0)
    assert violations(worker) == []
    worker.close()


def test_a_database_that_goes_away_between_two_statements_ends_no_run(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 10, item 5: it may go after a heartbeat and before the look for lost attempts."""
    asked: list[str] = []

    def gone(*_: Any, who: str) -> list[Any]:
        asked.append(who)
        if len(asked) in (2, 3):  # the first is the engine's own, before its attempts begin
            raise OperationalError("SELECT", {}, Exception("terminating connection"))
        return []

    monkeypatch.setattr(local, "take_over", gone)
    ledger = open_ledger(own_postgres.new_database(upgrade))
    screening = plan_stub(ledger, ["a"], tries=1)

    def gate(_order: AttemptOrder, _control: AttemptControl) -> None:
        wait_until(lambda: len(asked) > 3, "the engine looked again")

    settings = Settings(lease_ms=LEASE_MS, beat_ms=BEAT_MS, idle_ms=20, back_off_ms=0)
    result = LocalEngine(ledger, Callbacks(StubAttempt(gate=gate), stub_order), settings).run([screening], 1)
    assert (result.attempts, dict(result.states)) == (1, {screening: "complete"})
    assert violations(ledger) == []
    ledger.close()


def _waiting(ledger: Ledger) -> Claim:
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, register(ledger).id, lease_ms=LEASE_MS)
    assert held is not None
    elsewhere(ledger)
    return held


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _watched(ledger: Ledger, time: Time) -> LeaseWatch:
    """A watch that has seen the leases stand still for longer than one of them."""
    watch = LeaseWatch(LEASE_MS, time)
    for _ in range(5):
        watch.expired(ledger)
        time.now += LEASE_MS / 1000 / 3
    return watch


def test_a_worker_that_came_back_is_not_voided(ledger: Ledger) -> None:
    """Conditional: between the look and the void the lease was renewed, so the reaper lets go."""
    held, time = _waiting(ledger), Time()
    watch = _watched(ledger, time)

    def salvage(_held: Claim, seen: Observations) -> Salvage:
        beat(ledger, held.owner_id, {}, lease_ms=2 * LEASE_MS)
        return Salvage(replace(seen, worker_lost=True))

    (result,) = take_over(ledger, Callbacks(StubAttempt(), stub_order, salvage=salvage), watch, who="reaper")
    assert isinstance(result, Refused)
    assert queries.show_attempt(ledger, held.attempt_id).row["state"] == "live"
    assert [row["kind"] for row in queries.history(ledger, held.screening_id)][-1] == "claimed"


def test_a_worker_that_came_back_is_not_touched(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewed before anything was done to it: not even asked what it left, since that removes containers."""
    held, time = _waiting(ledger), Time()
    watch = _watched(ledger, time)
    expired = watch.expired(ledger)
    assert expired == {held.attempt_id}
    monkeypatch.setattr(watch, "expired", lambda _ledger: expired)
    beat(ledger, held.owner_id, {}, lease_ms=2 * LEASE_MS)

    def salvage(_held: Claim, _seen: Observations) -> Salvage:
        raise AssertionError("salvaged a living attempt")

    callbacks = Callbacks(StubAttempt(), stub_order, salvage=salvage)
    assert take_over(ledger, callbacks, watch, who="reaper") == []
