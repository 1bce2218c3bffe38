"""Leases of subnets: one attempt holds one, nobody shares, and what is void comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import plan_stub
from orchestrator.ids import new_id
from orchestrator.ledger import owners, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.models import HostOwner, SubnetLease
from orchestrator.ledger.subnets import POOL, PREFIX, SubnetsExhaustedError, give_back, lease, leases, sweep
from orchestrator.ledger.transitions import AttemptEnd, Claim, claim, end_attempt, queue, start
from orchestrator.screenings.orders import returning_subnets
from scoring.vocabulary import Reason

TINY = IPv4Network("10.9.0.0/26")
"""Four subnets."""


def test_a_lease_is_a_small_subnet_of_the_pool_and_stays_the_same(ledger: Ledger, owner_id: str) -> None:
    """Asked again, the attempt has the one that it has."""
    attempt = new_id()
    found = lease(ledger, attempt, owner_id)
    assert found.prefixlen == PREFIX and found.subnet_of(POOL)
    assert lease(ledger, attempt, owner_id) == found
    assert leases(ledger) == {str(found): attempt}


def test_no_two_attempts_share_and_the_last_one_is_told_why(ledger: Ledger, owner_id: str) -> None:
    """The whole pool can be had, then the reason is clear; one given back can be had at once."""
    held = {new_id(): None for _ in range(4)}
    found = {attempt: lease(ledger, attempt, owner_id, pool=TINY) for attempt in held}
    assert len(set(found.values())) == 4
    assert not any(a != b and a.overlaps(b) for a in found.values() for b in found.values())
    with pytest.raises(
        SubnetsExhaustedError, match=r"no subnet of 10\.9\.0\.0/26 is free: 4 attempts"
    ) as told:
        lease(ledger, new_id(), owner_id, pool=TINY)
    assert told.value.hint
    first = next(iter(found))
    assert (give_back(ledger, first), give_back(ledger, first)) == (True, False)
    assert lease(ledger, new_id(), owner_id, pool=TINY) == found[first]


def test_threads_never_get_the_same_one(ledger: Ledger, owner_id: str) -> None:
    """Sixteen workers at once: sixteen subnets."""
    pool, found = IPv4Network("10.9.0.0/24"), []
    ready = threading.Barrier(16)

    def one() -> None:
        ready.wait()
        found.append(lease(ledger, new_id(), owner_id, pool=pool))

    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 16


def _claimed(ledger: Ledger, owner_id: str) -> Claim:
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, owner_id, lease_ms=60_000)
    assert isinstance(held, Claim)
    return held


def test_an_ended_attempt_holds_nothing(
    ledger: Ledger, owner_id: str, end: Callable[..., AttemptEnd]
) -> None:
    """The lease expires with the attempt: nobody has to wait for its clean-up to be reported."""
    held = _claimed(ledger, owner_id)
    pool = IPv4Network("10.9.0.0/28")
    mine = lease(ledger, held.attempt_id, owner_id, pool=pool)
    with pytest.raises(SubnetsExhaustedError):
        lease(ledger, new_id(), owner_id, pool=pool)
    end_attempt(ledger, held, end(Reason.WRONG_OUTPUT))
    assert lease(ledger, new_id(), owner_id, pool=pool) == mine


def test_a_retired_owner_holds_nothing(ledger: Ledger) -> None:
    """Attempts of the admission gate are in no table; their owner's end is theirs."""
    owner = owners.register(ledger)
    lease(ledger, new_id(), owner.id)
    owners.retire(ledger, owner)
    assert sweep(ledger) == 0 and leases(ledger) == {}


def test_a_killed_owner_holds_nothing_after_a_sweep(ledger: Ledger, owner_id: str) -> None:
    """`kill -9` leaves a row that says nothing of an end; the process itself is looked for."""
    dead = owners.register(ledger)
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(HostOwner).where(HostOwner.id == dead.id).values(pid_started="0"))
    mine, other = lease(ledger, new_id(), dead.id), lease(ledger, kept := new_id(), owner_id)
    assert mine != other
    assert sweep(ledger) == 1
    assert leases(ledger) == {str(other): kept}


def test_the_database_itself_refuses_a_second_holder(ledger: Ledger, owner_id: str) -> None:
    """Not the search but the key keeps them apart."""
    found = lease(ledger, new_id(), owner_id)
    row = {"subnet": str(found), "attempt_id": new_id(), "owner_id": owner_id, "taken_ms": 1}
    with pytest.raises(sa.exc.IntegrityError), ledger.unit_of_work() as connection:
        connection.execute(sa.insert(SubnetLease), row)


@pytest.mark.parametrize("ends", [None, RuntimeError("lost")])
def test_an_attempt_gives_its_subnet_back_however_it_ends(
    ledger: Ledger, owner_id: str, ends: RuntimeError | None
) -> None:
    """Returned or raised; while it runs the lease is held, and an attempt without a pod has none."""
    held: list[int] = []

    def attempt(_order: AttemptOrder, _control: AttemptControl) -> AttemptReport:
        held.append(len(leases(ledger)))
        if ends is not None:
            raise ends
        return cast(AttemptReport, "a report")

    run = returning_subnets(ledger, attempt)
    for pod in (None, object()):
        attempt_id = new_id()
        if pod is not None:
            lease(ledger, attempt_id, owner_id)
        order = cast(AttemptOrder, SimpleNamespace(pod=pod, attempt_id=attempt_id))
        with pytest.raises(RuntimeError) if ends else nullcontext():
            run(order, cast(AttemptControl, None))
    assert held == [0, 1] and leases(ledger) == {}


def test_an_exhausted_pool_is_the_platforms_and_says_why(ledger: Ledger, owner_id: str) -> None:
    """sandbox.md 5.17: a fault of the prepare phase, run again; the reason is with the attempt."""
    lease(ledger, new_id(), owner_id, pool=IPv4Network("10.9.0.0/28"))

    def order_for(held: Claim) -> AttemptOrder:
        lease(ledger, held.attempt_id, held.owner_id, pool=IPv4Network("10.9.0.0/28"))
        raise AssertionError("there was none")

    def never(_order: AttemptOrder, _control: AttemptControl) -> AttemptReport:
        raise AssertionError("nothing is run")

    screening = plan_stub(ledger, ["a"], tries=1)
    engine = LocalEngine(ledger, Callbacks(never, order_for), Settings(back_off_ms=0), who="test")
    assert engine.run([screening], 1).states == {screening: "partial"}
    attempts = queries.show_try(ledger, queries.tries(ledger, screening)[0].row["id"]).attempts
    assert [(one.row["phase"], one.row["reason"]) for one in attempts] == [("prepare", "engine_error")] * 3
    assert all("no subnet of 10.9.0.0/28 is free" in one.row["details"]["error"] for one in attempts)


class _Leasing(RuleBasedStateMachine):
    """Any order of taking, giving back, sweeping and retiring, against a plain model."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.ledger = open_ledger(f"sqlite:///{self.folder / new_id()}.db")
        self.owners = [owners.register(self.ledger) for _ in range(2)]
        self.held: dict[str, tuple[int, IPv4Network]] = {}

    def teardown(self) -> None:
        self.ledger.close()

    @rule(who=st.integers(0, 1))
    def take(self, who: int) -> None:
        attempt = new_id()
        if len(self.held) == 4:
            with pytest.raises(SubnetsExhaustedError):
                lease(self.ledger, attempt, self.owners[who].id, pool=TINY)
        else:
            found = lease(self.ledger, attempt, self.owners[who].id, pool=TINY)
            assert found.subnet_of(TINY) and found not in [subnet for _, subnet in self.held.values()]
            self.held[attempt] = (who, found)

    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from([*sorted(self.held), "nobody"]))
        assert give_back(self.ledger, attempt) is (attempt in self.held)
        self.held.pop(attempt, None)

    @rule(who=st.integers(0, 1))
    def retire(self, who: int) -> None:
        owners.retire(self.ledger, self.owners[who])
        self.owners[who] = owners.register(self.ledger)
        self.held = {attempt: pair for attempt, pair in self.held.items() if pair[0] != who}
        assert sweep(self.ledger) == len(self.held)

    @invariant()
    def the_ledger_says_what_is_held(self) -> None:
        assert leases(self.ledger) == {str(subnet): attempt for attempt, (_, subnet) in self.held.items()}


def test_leases_in_any_order(tmp_path: Path) -> None:
    """Property: nobody shares, nothing is lost, nothing void stays."""
    machine = type("Leasing", (_Leasing,), {"folder": tmp_path})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=12, stateful_step_count=15, deadline=None)
    )
