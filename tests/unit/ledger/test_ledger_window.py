"""Windows, fairness and sweeping: what workers are told, decided by the database alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
from hypothesis import given

from orchestrator.engine.celery.metrics import figures_of, registry_of
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import hosts, queries, window
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.presence import newest
from orchestrator.ledger.shares import Demand, allot
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import (
    AttemptEnd,
    cancel,
    claim_message,
    end_attempt,
    hand_to,
    pause,
    resume,
    start,
    stop_at_cap,
)
from orchestrator.ledger.window import expected, fill, finished, give_back, overdue, unsent
from scoring.vocabulary import Reason
from tests.unit.ledger.conftest import ManualClock

Q = "try.c1m1.cpu1-mem1g"
BIG = "try.c4m8.cpu8-mem32g"
MakeEnd = Callable[..., AttemptEnd]


def campaign(ledger: Ledger, tasks: int = 4, *, name: str = "one", **options: object) -> str:
    settings = {"tries": 1, "engine": EngineName.CELERY, "queue": Q, **options}
    screening = plan_stub(ledger, [f"t{n}" for n in range(tasks)], name=name, **settings)  # type: ignore[arg-type]
    start(ledger, screening, who="test")
    return screening


def slots(ledger: Ledger, screening: str) -> dict[SlotState, int]:
    return {state: n for state, n in queries.status(ledger, screening).slots.items() if n}


demands = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 20)), max_size=6).map(
    lambda rows: [Demand(str(n), *row) for n, row in enumerate(rows)]
)


@given(st.integers(-3, 60), demands)
def test_allot_wastes_nothing_and_starves_nobody(room: int, wanted: list[Demand]) -> None:
    """4.5, round robin by share: every place that somebody wants is given; nobody gets what is not ready;
    whoever is left waiting has at least as much per share as anybody had before its last place."""
    given_ = allot(room, wanted)
    assert sum(given_.values()) == min(max(room, 0), sum(one.ready for one in wanted))
    for one in wanted:
        assert 0 <= given_.get(one.screening_id, 0) <= one.ready
    for poor in wanted:
        if given_.get(poor.screening_id, 0) == poor.ready:
            continue
        has = (poor.busy + given_.get(poor.screening_id, 0)) / poor.share
        for rich in wanted:
            if got := given_.get(rich.screening_id, 0):
                assert (rich.busy + got - 1) / rich.share <= has


def test_fill_keeps_the_window_and_the_order(ledger: Ledger, owner_id: str) -> None:
    """4.5: only so many messages wait as there are places for; in start order; each slot once."""
    screening = campaign(ledger, 6)
    order = {view.row["id"]: view.row["start_order"] for view in queries.tries(ledger, screening)}
    first = fill(ledger, {Q: 4}, who="d")
    assert [order[one.slot_id] for one in first] == [0, 1, 2, 3]
    assert {(one.generation, one.queue, one.limit_ms) for one in first} == {(1, Q, 600_000)}
    assert fill(ledger, {Q: 4}, who="d") == []
    assert claim_message(ledger, first[0].slot_id, 1, owner_id, lease_ms=1000) is not None
    assert [order[one.slot_id] for one in fill(ledger, {Q: 4}, who="d")] == [4]
    assert slots(ledger, screening) == {SlotState.PLANNED: 1, SlotState.QUEUED: 4, SlotState.RUNNING: 1}
    assert violations(ledger) == []


def test_fill_serves_queues_apart_and_nobody_elses_screening(ledger: Ledger) -> None:
    """A queue without a worker is sent nothing, and a screening of one machine none of its slots."""
    here, big, local = (
        campaign(ledger),
        campaign(ledger, name="big", queue=BIG),
        campaign(ledger, name="local", engine=EngineName.LOCAL),
    )
    assert {one.queue for one in fill(ledger, {Q: 99}, who="d")} == {Q}
    assert slots(ledger, here) == {SlotState.QUEUED: 4}
    assert slots(ledger, big) == slots(ledger, local) == {SlotState.PLANNED: 4}
    assert hand_to(ledger, local, EngineName.CELERY, who="test")
    assert not hand_to(ledger, local, EngineName.CELERY, who="test")
    assert len(fill(ledger, {Q: 99}, who="d")) == 4
    assert "handed" in [event["kind"] for event in queries.history(ledger, local)]


def test_screenings_share_by_weight(ledger: Ledger) -> None:
    """4.5: twice the share, twice the places, and a screening that is started later catches up."""
    small, large = campaign(ledger, 30), campaign(ledger, 30, name="large", share=2)
    fill(ledger, {Q: 9}, who="d")
    assert [slots(ledger, one)[SlotState.QUEUED] for one in (small, large)] == [3, 6]
    late = campaign(ledger, 30, name="late")
    fill(ledger, {Q: 12}, who="d")
    assert slots(ledger, late)[SlotState.QUEUED] == 3


def test_money_bounds_the_window(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Transition 1: used + reserved <= cap in the same unit as the dispatch; then the cap stops it."""
    screening = campaign(ledger, 5, cap_nusd=25, try_cap_nusd=10)
    messages = fill(ledger, {Q: 99}, who="d")
    assert len(messages) == 2
    assert window.unaffordable(ledger) == [screening]
    assert stop_at_cap(ledger, screening) == 0  # two are still out, and may cost less
    for one in messages:
        held = claim_message(ledger, one.slot_id, one.generation, owner_id, lease_ms=1000)
        assert held is not None
        end_attempt(ledger, held, end(Reason.WRONG_OUTPUT, digest=one.slot_id[-1] * 64, nusd=10))
    assert fill(ledger, {Q: 99}, who="d") == []
    assert stop_at_cap(ledger, screening) == 3
    assert finished(ledger) == [screening]
    assert violations(ledger) == []


def test_pause_takes_the_window_back_and_old_messages_are_refused(ledger: Ledger, owner_id: str) -> None:
    """Transition 11: pause and resume need no purge; a message from before carries an old generation."""
    screening = campaign(ledger)
    old = fill(ledger, {Q: 2}, who="d")
    pause(ledger, screening, who="test")
    assert slots(ledger, screening) == {SlotState.PLANNED: 4}
    assert fill(ledger, {Q: 2}, who="d") == []
    assert claim_message(ledger, old[0].slot_id, old[0].generation, owner_id, lease_ms=1) is None
    resume(ledger, screening, who="test")
    new = fill(ledger, {Q: 2}, who="d")
    assert [one.slot_id for one in new] == [one.slot_id for one in old]
    assert claim_message(ledger, old[0].slot_id, old[0].generation, owner_id, lease_ms=1) is None
    assert claim_message(ledger, new[0].slot_id, new[0].generation, owner_id, lease_ms=1) is not None


def test_a_cancelled_screening_is_told_to_nobody(ledger: Ledger, owner_id: str) -> None:
    """Transition 9: immediate; a message that is out is refused at the claim, and nothing is sent again."""
    screening = campaign(ledger)
    (message, *_) = fill(ledger, {Q: 2}, who="d")
    assert cancel(ledger, screening, who="test") == 4
    assert claim_message(ledger, message.slot_id, message.generation, owner_id, lease_ms=1) is None
    assert expected(ledger) == {} and unsent(ledger) == [] and overdue(ledger, [Q], older_ms=-1) == []
    assert finished(ledger) == [screening]


def test_what_was_lost_is_told_again_once(ledger: Ledger, clock: ManualClock) -> None:
    """Transition 2: same generation, older than a sweep, only of queues too short, by one sweeper."""
    campaign(ledger)
    sent = fill(ledger, {Q: 3}, who="d")
    assert expected(ledger) == {Q: 3}
    assert overdue(ledger, [Q], older_ms=1000) == []
    clock.now_ms += 1001
    assert overdue(ledger, [], older_ms=1000) == overdue(ledger, [BIG], older_ms=1000) == []
    assert sorted(overdue(ledger, [Q], older_ms=1000), key=_slot) == sorted(sent, key=_slot)
    assert overdue(ledger, [Q], older_ms=1000) == []


def _slot(message: Message) -> str:
    return message.slot_id


def test_a_re_run_is_told_after_its_pause(
    ledger: Ledger, owner_id: str, end: MakeEnd, clock: ManualClock
) -> None:
    """Transition 6: its own generation and no message of the broker that waits; not_before is in the row."""
    campaign(ledger, 1)
    (message,) = fill(ledger, {Q: 1}, who="d")
    held = claim_message(ledger, message.slot_id, message.generation, owner_id, lease_ms=1000)
    assert held is not None
    end_attempt(ledger, held, end(Reason.ENGINE_ERROR), back_off_ms=500)
    assert unsent(ledger) == [] and expected(ledger) == {}
    clock.now_ms += 500
    (again,) = unsent(ledger)
    assert (again.slot_id, again.generation) == (message.slot_id, message.generation + 1)
    assert unsent(ledger) == []


def test_a_message_can_be_given_back(ledger: Ledger) -> None:
    """What an unfit host took is told to another one at the next turn, not after a sweep."""
    campaign(ledger, 1)
    (message,) = fill(ledger, {Q: 1}, who="d")
    assert not give_back(ledger, message.slot_id, message.generation + 1)
    assert not give_back(ledger, message.slot_id, message.generation, draining="nobody")
    assert give_back(ledger, message.slot_id, message.generation)
    assert expected(ledger) == {}
    assert unsent(ledger) == [message] and expected(ledger) == {Q: 1}


def test_a_try_that_is_handed_back_again_and_again_waits_from_its_first_message(
    ledger: Ledger, owner_id: str, end: MakeEnd, clock: ManualClock
) -> None:
    """Else nobody ever sees that it starts nowhere; a re-run waits from the end of its pause."""
    hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=1, queues=[Q])

    def waits_ms() -> int:
        seen = newest(ledger, "lab", WorkerRole.WORKER, beat_ms=20_000)
        figures = {str(one["name"]): one["value"] for one in figures_of(registry_of(ledger, Times()))}
        assert seen is not None and seen.waiting_ms is not None
        assert figures["assize_oldest_queued_seconds"] == seen.waiting_ms / 1000
        return seen.waiting_ms

    campaign(ledger, 1)
    (message,) = fill(ledger, {Q: 1}, who="d")
    for n in range(4):
        assert waits_ms() == n * 200_000 and give_back(ledger, message.slot_id, message.generation)
        clock.now_ms += 100_000
        assert unsent(ledger) == [message]
        clock.now_ms += 100_000
        assert overdue(ledger, [Q], older_ms=99_999) == [message]
    held = claim_message(ledger, message.slot_id, message.generation, owner_id, lease_ms=1000)
    assert held is not None
    end_attempt(ledger, held, end(Reason.ENGINE_ERROR), back_off_ms=500_000)
    clock.now_ms += 500_000
    assert len(unsent(ledger)) == 1 and waits_ms() == 0


@pytest.mark.parametrize("dispatchers", [4])
def test_many_dispatchers_and_sweepers_are_as_one(ledger: Ledger, dispatchers: int) -> None:
    """Section 10.4: at once they send every slot once and never pass the window."""
    screening = campaign(ledger, 40)

    def work(_: int) -> list[Message]:
        found: list[Message] = []
        for _turn in range(4):
            found += fill(ledger, {Q: 30}, who="d") + unsent(ledger)
        return found

    with ThreadPoolExecutor(dispatchers) as pool:
        sent = [message for found in pool.map(work, range(dispatchers)) for message in found]
    assert len({message.slot_id for message in sent}) == len(sent) == 30
    assert slots(ledger, screening)[SlotState.QUEUED] == 30

    def sweep(_: int) -> list[Message]:
        return overdue(ledger, [Q], older_ms=1000)

    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE try_slot SET sent_ms = 5 WHERE state = 'queued'")
    with ThreadPoolExecutor(dispatchers) as pool:
        again = [message for found in pool.map(sweep, range(dispatchers)) for message in found]
    assert len({message.slot_id for message in again}) == len(again) == 30
