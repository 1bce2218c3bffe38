"""A keeper's turns against a real Redis: dispatch, sweep, reap, close; two of them are as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from orchestrator.engine.base import Callbacks, Ended, Started, Voided
from orchestrator.engine.celery.broker import Publisher
from orchestrator.engine.celery.campaign import Campaign
from orchestrator.engine.celery.follower import Follower
from orchestrator.engine.celery.keeper import Keeper, Surroundings
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger import hosts, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.models import TrySlot
from orchestrator.ledger.owners import Owner, register, retire
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import AttemptEnd, claim_message, end_attempt, start
from orchestrator.observations import Observations
from scoring.vocabulary import OUTCOME_OF, Phase, Reason
from tests.assets.services.redis import RedisServer

Q = "try.c1m1.cpu1-mem1g"
NOW = Times(dispatch_ms=0, sweep_ms=1, reap_ms=0, beat_ms=60_000, tidy_ms=0, back_off_ms=0)
CALLBACKS = Callbacks(StubAttempt(), stub_order, metered=lambda held: 5)


@pytest.fixture
def publisher(redis_server: RedisServer) -> Iterator[Publisher]:
    made = Publisher(redis_server.url)
    yield made
    made.close()


@pytest.fixture
def worker_id(ledger: Ledger) -> str:
    return hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=2, queues=[Q])


def campaign(ledger: Ledger, tasks: int = 6) -> str:
    names = [f"t{n}" for n in range(tasks)]
    screening = plan_stub(ledger, names, tries=1, engine=EngineName.CELERY, queue=Q)
    start(ledger, screening, who="test")
    return screening


def take(ledger: Ledger, owner: Owner, reason: Reason | None = Reason.ALL_CHECKS_PASSED) -> None:
    """Claim the first queued slot as a worker would, and end it."""
    with ledger.reading() as connection:
        row = connection.execute(
            sa.select(TrySlot.id, TrySlot.generation).where(TrySlot.state == SlotState.QUEUED).limit(1)
        ).one()
    held = claim_message(ledger, row.id, row.generation, owner.id, lease_ms=60_000)
    assert held is not None
    if reason is not None:
        end = AttemptEnd(
            outcome=OUTCOME_OF[reason],
            reason=reason,
            phase=Phase.GRADE,
            rule="scripted",
            manifest_digest=held.attempt_id.lower().ljust(64, "0"),
            nusd=5,
            details={"observations": Observations().as_data(), "evidence": [], "phases": []},
        )
        end_attempt(ledger, held, end, back_off_ms=0)


def test_a_turn_sends_what_there_is_room_for(ledger: Ledger, publisher: Publisher, worker_id: str) -> None:
    """Twice the places wait in Redis, the rest in the ledger; a second keeper adds nothing."""
    screening = campaign(ledger)
    keepers = [Keeper(ledger, publisher, CALLBACKS, NOW, worker_id) for _ in range(2)]
    for keeper in keepers:
        keeper.turn()
    assert publisher.lengths([Q]) == {Q: 4}
    slots = queries.status(ledger, screening).slots
    assert (slots[SlotState.QUEUED], slots[SlotState.PLANNED]) == (4, 2)


def test_a_wiped_broker_is_filled_again_and_a_full_one_left_alone(
    ledger: Ledger, publisher: Publisher, worker_id: str, redis_server: RedisServer
) -> None:
    """Transition 2: while the messages are there nothing is sent again, however long they wait."""
    campaign(ledger)
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id)
    keeper.turn()
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE try_slot SET sent_ms = 5 WHERE state = 'queued'")
    keeper.turn()
    assert publisher.lengths([Q]) == {Q: 4}
    redis_server.wipe()
    keeper.turn()
    assert publisher.lengths([Q]) == {Q: 4}


def test_a_dead_owner_is_reaped_and_its_slot_told_again(
    ledger: Ledger, publisher: Publisher, worker_id: str
) -> None:
    """Transition 6, and what the dead left is removed at once, not at the next round."""
    screening = campaign(ledger, 1)
    tidied: list[int] = []
    around = Surroundings(tidy=lambda: tidied.append(1))
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id, around)
    keeper.turn()
    owner = register(ledger, worker_id)
    take(ledger, owner, None)
    retire(ledger, owner)
    keeper.turn()
    keeper.turn()
    status = queries.status(ledger, screening)
    assert (status.slots[SlotState.QUEUED], status.reruns, status.platform_nusd) == (1, 1, 5)
    assert publisher.lengths([Q]) == {Q: 2}  # the old message, which will be refused, and the new one
    assert len(tidied) >= 2 and violations(ledger) == []


def test_what_is_complete_is_closed(ledger: Ledger, publisher: Publisher, worker_id: str) -> None:
    """4.3: anybody closes, when no slot is open."""
    screening = campaign(ledger, 1)
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id)
    keeper.turn()
    take(ledger, register(ledger, worker_id))
    keeper.turn()
    assert queries.screening(ledger, screening)["state"] == "complete"


def test_a_broker_that_is_away_costs_no_turn(ledger: Ledger, worker_id: str) -> None:
    """Publishing is after the commit and may fail; everything else goes on."""
    screening = campaign(ledger, 1)
    nowhere = Publisher("redis://127.0.0.1:1/0")
    keeper = Keeper(ledger, nowhere, CALLBACKS, NOW, worker_id)
    keeper.turn()
    take(ledger, register(ledger, worker_id))
    keeper.turn()
    assert queries.screening(ledger, screening)["state"] == "complete"


def test_a_step_that_fails_does_not_stop_the_others(
    ledger: Ledger, publisher: Publisher, worker_id: str
) -> None:
    """One thread keeps every campaign going: a Docker engine that is away must not end it."""

    def broken() -> None:
        raise RuntimeError("no engine")

    campaign(ledger)
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id, Surroundings(tidy=broken))
    keeper.turn()
    keeper.turn()
    assert publisher.lengths([Q]) == {Q: 4}


@pytest.mark.parametrize("name", ["publish", "lengths"])
def test_nothing_is_sent_or_asked_where_a_fork_could_happen(
    ledger: Ledger, publisher: Publisher, worker_id: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The broker's client has locks too: a child that was forked inside of one of them stands still for ever.

    The same for what tidies, and for the count of children.
    """
    inside, seen = list[str](), Counter[str]()

    @contextmanager
    def quiet() -> Iterator[None]:
        inside.append("one more")
        yield
        inside.pop()

    def used(what: str) -> None:
        assert inside, f"{what} was used where a fork could happen"
        seen[what] += 1

    real = getattr(publisher, name)

    def guarded(what: Any) -> Any:
        used(name)
        return real(what)

    monkeypatch.setattr(publisher, name, guarded)

    def children() -> int:
        used("children")
        return 2

    around = Surroundings(quiet=quiet, tidy=lambda: used("tidy"), children=children)
    campaign(ledger)
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id, around)
    for _ in range(3):
        keeper.turn()
    assert seen[name] and seen["tidy"] and seen["children"] and not inside


def test_a_follower_tells_the_history_once(ledger: Ledger, publisher: Publisher, worker_id: str) -> None:
    """The events of a campaign are those of an engine here, from whichever host they come."""
    screening = campaign(ledger, 2)
    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id)
    keeper.turn()
    owner = register(ledger, worker_id)
    take(ledger, owner)
    follower = Follower(ledger, [screening])
    take(ledger, owner, Reason.ENGINE_ERROR)
    news = list(follower.news())
    assert [type(one) for one in news] == [Started, Voided]
    void = news[1]
    assert isinstance(void, Voided) and void.requeued and void.reason == "engine_error"
    take(ledger, owner)
    news = list(follower.news())
    assert [type(one) for one in news] == [Started, Ended]
    assert list(follower.news()) == []


@pytest.mark.parametrize("signed", [True, False])
def test_a_campaign_is_over_when_it_is_closed_and_signed(
    ledger: Ledger, publisher: Publisher, worker_id: str, signed: bool
) -> None:
    """`run` returns at the end, or when interrupted; then the workers go on without it."""
    screening = plan_stub(ledger, ["a"], tries=1, queue=Q)
    names: list[str] = []

    def each_look() -> bool:
        if queries.status(ledger, screening).slots[SlotState.QUEUED]:
            take(ledger, register(ledger, worker_id))
        if not signed and queries.screening(ledger, screening)["closed_ms"]:
            one.interrupt()
        return signed

    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id)
    one = Campaign(
        ledger,
        keeper,
        each_look=each_look,
        progress=lambda event: names.append(type(event).__name__),
        who="test",
        look_s=0.01,
    )
    result = one.run([screening], 0)
    assert result.states == {screening: "complete"} and not result.interrupted
    assert names[0] == "Planned" and names[-1] == "Closed"
    assert queries.screening(ledger, screening)["engine"] == EngineName.CELERY


def test_leaving_a_campaign_leaves_it_running(ledger: Ledger, publisher: Publisher, worker_id: str) -> None:
    """Ctrl-C is no pause: the screening stays open and what was queued stays queued."""
    screening = plan_stub(ledger, ["a", "b"], tries=1, queue=Q)
    names: list[str] = []

    def each_look() -> bool:
        if queries.status(ledger, screening).slots[SlotState.QUEUED]:
            one.interrupt()
        return True

    keeper = Keeper(ledger, publisher, CALLBACKS, NOW, worker_id)
    one = Campaign(
        ledger,
        keeper,
        each_look=each_look,
        progress=lambda event: names.append(type(event).__name__),
        who="test",
        look_s=0.01,
    )
    result = one.run([screening], 0)
    assert result.interrupted and result.states == {screening: "running"} and names[-1] == "Left"
    assert queries.status(ledger, screening).slots[SlotState.QUEUED] == 2
