"""Attempts of dead processes: taken over at once where that is seen, else after a watched lease."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from orchestrator.attempts import AttemptOrder
from orchestrator.engine.base import Callbacks, Ended, Salvage, Voided
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.engine.takeover import LeaseWatch, take_over
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.models import HostOwner
from orchestrator.ledger.owners import Owner, register
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import Claim, beat, claim, queue, start
from orchestrator.observations import Observations

LEASE = 120_000


def no_order(_held: Claim) -> AttemptOrder:
    raise AssertionError("a take-over starts nothing")


def callbacks(**more: Any) -> Callbacks:
    return Callbacks(StubAttempt(), more.pop("order_for", no_order), **more)


def held_by(ledger: Ledger, **change: Any) -> tuple[Owner, Claim]:
    """A claim whose owner's row is changed afterwards, as if another process had written it."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    owner = register(ledger)
    held = claim(ledger, screening, owner.id, lease_ms=LEASE)
    assert held is not None
    if change:
        with ledger.unit_of_work() as connection:
            connection.execute(sa.update(HostOwner).where(HostOwner.id == owner.id).values(**change))
    return owner, held


class Monotonic:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_living_are_left_alone(ledger: Ledger) -> None:
    """Another run of this very process holds the attempt: nothing happens."""
    held_by(ledger)
    assert take_over(ledger, callbacks(), LeaseWatch(LEASE), who="me") == []


@pytest.mark.parametrize("change", [{"pid_started": "1"}, {"boot_id": "earlier"}, {"ended_ms": 5}])
def test_the_dead_are_taken_over_at_once(ledger: Ledger, change: dict[str, Any]) -> None:
    """Section 5: pid, start time and boot id instead of a lease; worker_lost, a re-run, the platform pays."""
    _, held = held_by(ledger, **change)
    (result,) = take_over(ledger, callbacks(metered=lambda _held: 5), LeaseWatch(LEASE), who="me")
    assert isinstance(result, Voided) and result.lost and result.requeued and result.reason == "worker_lost"
    status = queries.status(ledger, held.screening_id)
    assert (status.slots[SlotState.QUEUED], status.reruns, status.platform_nusd) == (1, 1, 5)
    assert take_over(ledger, callbacks(), LeaseWatch(LEASE), who="me") == []
    assert violations(ledger) == []


def test_re_runs_after_losses_are_capped(ledger: Ledger) -> None:
    """A poison try that kills its worker every time ends as uncountable, it does not run for ever."""
    owner, held = held_by(ledger, ended_ms=5)
    for _ in range(3):
        assert len(take_over(ledger, callbacks(), LeaseWatch(LEASE), who="me")) == 1
        claim(ledger, held.screening_id, owner.id, lease_ms=LEASE)
    assert queries.status(ledger, held.screening_id).slots[SlotState.UNCOUNTABLE] == 1


@pytest.mark.parametrize(("manifest", "expected"), [("7" * 64, "deadline_overrun"), (None, "worker_lost")])
def test_an_overrun_convicts_only_with_evidence(ledger: Ledger, manifest: str | None, expected: str) -> None:
    """Transition 8: recorded as the agent's failure when host evidence is stored, else worker_lost."""
    held_by(ledger, ended_ms=5)

    def salvage(_held: Claim, _seen: Observations) -> Salvage:
        return Salvage(Observations(host_shows_overrun=True), manifest)

    (result,) = take_over(ledger, callbacks(salvage=salvage), LeaseWatch(LEASE), who="me")
    assert isinstance(result, Ended if manifest else Voided) and result.reason == expected
    assert violations(ledger) == []


def test_a_lease_expires_only_under_watch(ledger: Ledger) -> None:
    """4.4: an owner on another host counts as lost after its lease stood still for a full lease of watching;
    a beat in between starts the watch anew, and an old lease alone says nothing."""
    time = Monotonic()
    owner, _ = held_by(ledger, boot_id="elsewhere", host="elsewhere")
    watch = LeaseWatch(LEASE, time)
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE attempt SET lease_until_ms = 1")
    assert take_over(ledger, callbacks(), watch, who="me") == []
    for time.now in (50.0, 100.0):
        assert take_over(ledger, callbacks(), watch, who="me") == []
    beat(ledger, owner.id, {}, lease_ms=LEASE)
    for time.now in (100.0, 150.0, 200.0, 220.0):
        assert take_over(ledger, callbacks(), watch, who="me") == []
    time.now = 220.1
    (result,) = take_over(ledger, callbacks(), watch, who="me")
    assert isinstance(result, Voided) and result.lost
    assert violations(ledger) == []


def test_a_watch_that_was_away_begins_again(ledger: Ledger) -> None:
    """4.4: awake and connected all the time, or else an outage of the database or a laptop's sleep would void
    every live attempt at the first look after it."""
    time = Monotonic()
    held_by(ledger, boot_id="elsewhere", host="elsewhere")
    watch = LeaseWatch(LEASE, time)
    for time.now in (0.0, 50.0, 100.0, 400.0, 450.0, 500.0, 520.0):
        assert take_over(ledger, callbacks(), watch, who="me") == []
    time.now = 520.1
    assert len(take_over(ledger, callbacks(), watch, who="me")) == 1


def test_a_frozen_process_is_lost_to_those_who_watch_everybody(ledger: Ledger) -> None:
    """A process that is seen to be there and does not beat is in the way of its slot for ever; the engine of
    one machine leaves it alone, keepers of many hosts do not."""
    time = Monotonic()
    held_by(ledger)
    patient, watch = LeaseWatch(LEASE, time), LeaseWatch(LEASE, time, everybody=True)
    for time.now in (0.0, 50.0, 100.0, 120.0):
        assert take_over(ledger, callbacks(), watch, who="me") == []
        assert take_over(ledger, callbacks(), patient, who="me") == []
    time.now = 120.1
    assert take_over(ledger, callbacks(), patient, who="me") == []
    (result,) = take_over(ledger, callbacks(), watch, who="me")
    assert isinstance(result, Voided) and result.lost


def test_the_stub_is_a_whole_order(ledger: Ledger) -> None:
    """The scripted attempt speaks the same contract as a real worker."""
    _, held = held_by(ledger)
    order = stub_order(held)
    assert (order.token, order.attempt, order.index) == (held.token, held.number, held.k)
