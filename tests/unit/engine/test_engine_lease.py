"""How long an attempt may start model calls: as long as its last heartbeat is good for, whatever happens."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.engine.base import Callbacks, Settings, Stop
from orchestrator.engine.celery.child import Heart
from orchestrator.engine.celery.times import Times
from orchestrator.engine.control import Control
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import Claim, claim, queue, start, stop_attempt
from tests.assets.services.own import wait_until

TIMES = Times(lease_ms=60_000, beat_ms=10)
CALLS_MS = TIMES.engine().calls_ms


@pytest.fixture
def held(ledger: Ledger) -> Claim:
    """One attempt of this process."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    found = claim(ledger, screening, register(ledger).id, lease_ms=TIMES.lease_ms)
    assert found is not None
    return found


class Unreachable:
    """A ledger whose database is away."""

    def unit_of_work(self) -> Any:
        raise OperationalError("beat", None, ConnectionError("the network is down"))


def test_more_than_three_leases_and_a_lease_outlasts_several_beats() -> None:
    """Three leases without a database void nothing, so calls go on for longer than that."""
    times = Times()
    assert times.engine().calls_ms > 3 * times.lease_ms + 2 * times.beat_ms


def test_a_claim_is_good_for_calls_and_every_heartbeat_again(ledger: Ledger, held: Claim) -> None:
    """The bound counts from the moment a heartbeat set out, not from its answer."""
    before = time.monotonic()
    control = Control(held, None, calls_ms=CALLS_MS)
    first = control.calls_until()
    assert first is not None and first >= before + CALLS_MS / 1000
    sent = time.monotonic()
    Heart(ledger, TIMES, control).beat()
    second = control.calls_until()
    assert second is not None and sent <= second - CALLS_MS / 1000 <= time.monotonic()
    assert second > first


def test_without_a_bound_there_is_none(held: Claim) -> None:
    """Attempts that no other host could take go on."""
    assert Control(held, None).calls_until() is None


def test_no_beat_gets_through_so_the_bound_stands(held: Claim) -> None:
    """An attempt whose time is over is stopped all the same: that needs no database."""
    control = Control(replace(held, deadline_ms=held.claimed_ms), None, calls_ms=CALLS_MS)
    first = control.calls_until()
    with Heart(Unreachable(), TIMES, control):  # type: ignore[arg-type]
        wait_until(control.cancelled, "the deadline stops it")
    assert control.why is Stop.DEADLINE
    assert control.calls_until() == first


def test_the_engine_of_one_machine_keeps_the_deadline_without_its_database_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rule as a worker's: the heartbeat that fails looks at the time all the same."""
    why: list[Stop | None] = []

    def gate(_order: AttemptOrder, given: AttemptControl) -> None:
        wait_until(given.cancelled, "the deadline stops it", within_s=20)
        assert isinstance(given, Control)
        why.append(given.why)

    def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("beat", None, ConnectionError("the network is down"))

    monkeypatch.setattr("orchestrator.engine.local.beat", away)
    screening = plan_stub(ledger, ["a"], tries=1, limit_ms=1)
    settings = Settings(beat_ms=10, idle_ms=5, back_off_ms=0)
    engine = LocalEngine(ledger, Callbacks(StubAttempt(gate=gate), stub_order), settings)
    assert engine.run([screening], 1).attempts == len(why)
    assert set(why) == {Stop.DEADLINE}


def test_a_lost_token_is_no_renewal(ledger: Ledger, held: Claim) -> None:
    """A zombie's beat reaches the database and renews nothing."""
    control = Control(held, None, calls_ms=CALLS_MS)
    first = control.calls_until()
    stop_attempt(ledger, held, who="somebody", nusd=None)
    Heart(ledger, TIMES, control).beat()
    assert control.why is Stop.TOKEN and control.calls_until() == first


def test_the_attempt_is_told_the_bound(held: Claim) -> None:
    """What an attempt function gets is the engine's own control."""
    seen: list[float | None] = []
    control = Control(held, None, calls_ms=CALLS_MS)
    attempt = StubAttempt(gate=lambda _order, given: seen.append(given.calls_until()))
    attempt(stub_order(held), control)
    assert seen == [control.calls_until()]
