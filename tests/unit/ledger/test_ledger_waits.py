"""A full provider is shared by all that ask: runs on one machine and workers' tries, on both databases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import providers, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.providers import ProviderFullError, set_limits
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import (
    AttemptEnd,
    Claim,
    claim,
    claim_message,
    end_attempt,
    pause,
    queue,
    start,
)
from orchestrator.ledger.waits import WAIT_MS
from orchestrator.ledger.window import fill
from scoring.vocabulary import OUTCOME_OF, Phase, Reason
from tests.unit.ledger.conftest import ManualClock

Q = "try.c1m1.cpu1-mem1g"


class Party:
    """One screening with what runs of it; `take` asks for one place more."""

    def __init__(self, ledger: Ledger, owner_id: str, name: str, engine: EngineName, share: int = 1) -> None:
        self.ledger, self.owner_id, self.engine = ledger, owner_id, engine
        tasks = [f"t{n}" for n in range(40)]
        options = {"tries": 1, "engine": engine, "queue": Q, "share": share, "providers": ["openai"]}
        self.id = plan_stub(ledger, tasks, name=name, **options)  # type: ignore[arg-type]
        start(ledger, self.id, who="test")
        if engine is EngineName.LOCAL:
            queue(ledger, self.id, 40)
        self.running: list[Claim] = []

    def take(self) -> bool:
        """As the thread of a run does; workers' tries begin with `dispatch`."""
        try:
            held = claim(self.ledger, self.id, self.owner_id, lease_ms=60_000)
        except ProviderFullError:
            return False
        assert held is not None
        self.running.append(held)
        return True

    def end(self) -> None:
        """The oldest try is recorded."""
        end_attempt(self.ledger, self.running.pop(0), _passed())

    def busy(self) -> int:
        return queries.status(self.ledger, self.id).slots[SlotState.RUNNING]


def _passed() -> AttemptEnd:
    reason = Reason.ALL_CHECKS_PASSED
    return AttemptEnd(
        outcome=OUTCOME_OF[reason],
        reason=reason,
        phase=Phase.GRADE,
        rule="test",
        manifest_digest="a" * 64,
        nusd=0,
        details={"evidence": []},
    )


def dispatch(ledger: Ledger, *parties: Party) -> None:
    """Fill the window, and let workers begin all of it."""
    of = {one.id: one for one in parties}
    for message in fill(ledger, {Q: 99}, who="d"):
        held = claim_message(
            ledger, message.slot_id, message.generation, parties[0].owner_id, lease_ms=60_000
        )
        assert held is not None
        of[held.screening_id].running.append(held)


def test_a_run_that_waits_gets_its_share_of_what_workers_had(
    ledger: Ledger, owner_id: str, clock: ManualClock
) -> None:
    """Workers have every place; as they come free the run has half of them, and then no more."""
    set_limits(ledger, {"openai": 4})
    there = Party(ledger, owner_id, "there", EngineName.CELERY)
    dispatch(ledger, there)
    here = Party(ledger, owner_id, "here", EngineName.LOCAL)
    assert there.busy() == 4 and not here.take()
    for count in (1, 2):
        there.end()
        dispatch(ledger, there)  # the dispatcher is first, and leaves the place
        assert there.busy() == 4 - count and here.take()
        assert not here.take()  # its next thread
    there.end()
    dispatch(ledger, there)
    assert (there.busy(), here.busy()) == (2, 2)
    here.end()
    # Now the run is the quicker one, and again each has its own.
    assert here.take() and not here.take() and violations(ledger) == []


def test_a_run_takes_no_place_that_workers_wait_for(ledger: Ledger, owner_id: str) -> None:
    """The other way round: the run has every place, and would be the first to see each that comes free."""
    set_limits(ledger, {"openai": 2})
    here = Party(ledger, owner_id, "here", EngineName.LOCAL)
    assert here.take() and here.take()
    there = Party(ledger, owner_id, "there", EngineName.CELERY)
    dispatch(ledger, there)
    here.end()
    assert not here.take()
    dispatch(ledger, there)
    assert (here.busy(), there.busy()) == (1, 1) and violations(ledger) == []


def test_runs_on_one_machine_take_turns(ledger: Ledger, owner_id: str, clock: ManualClock) -> None:
    """One place: who has just had it comes after who waits."""
    set_limits(ledger, {"openai": 1})
    one, two = (Party(ledger, owner_id, name, EngineName.LOCAL) for name in ("one", "two"))
    assert one.take() and not two.take()
    for has, waits in ((one, two), (two, one), (one, two)):
        clock.now_ms += 1_000
        has.end()
        assert not has.take() and waits.take() and not has.take()
    assert violations(ledger) == []


@pytest.mark.parametrize("first", list(EngineName))
def test_equals_do_not_leave_a_place_to_each_other(
    ledger: Ledger, owner_id: str, clock: ManualClock, first: EngineName
) -> None:
    """The dispatcher and a run that wait with the same share agree on whose place it is: the longer wait."""
    set_limits(ledger, {"openai": 1})
    has, here = (Party(ledger, owner_id, name, EngineName.LOCAL) for name in ("has", "here"))
    there = Party(ledger, owner_id, "there", EngineName.CELERY)
    assert has.take()
    asks: list[Callable[[], object]] = [lambda: dispatch(ledger, there), lambda: here.take()]
    for ask in asks if first is EngineName.CELERY else reversed(asks):
        ask()
        clock.now_ms += 1
    has.end()
    here.take()
    dispatch(ledger, there)
    here.take()
    assert (there if first is EngineName.CELERY else here).busy() == 1
    assert there.busy() + here.busy() == 1 and violations(ledger) == []


def test_who_does_not_come_back_keeps_no_place(ledger: Ledger, owner_id: str, clock: ManualClock) -> None:
    """A run that was killed while it waited, or paused, is forgotten."""
    set_limits(ledger, {"openai": 1})
    there = Party(ledger, owner_id, "there", EngineName.CELERY)
    dispatch(ledger, there)
    clock.now_ms += 1
    gone = Party(ledger, owner_id, "gone", EngineName.LOCAL)
    assert not gone.take()
    there.end()
    clock.now_ms += 1
    dispatch(ledger, there)
    assert there.busy() == 1, "it asked for its second place before the other one asked at all"
    there.end()
    clock.now_ms += WAIT_MS - 2
    dispatch(ledger, there)
    assert there.busy() == 0
    clock.now_ms += 1
    dispatch(ledger, there)
    assert there.busy() == 1 and not gone.take()
    pause(ledger, gone.id, who="test")
    there.end()
    dispatch(ledger, there)
    assert there.busy() == 1


def test_a_provider_without_a_limit_makes_nobody_wait(ledger: Ledger, owner_id: str) -> None:
    """And a screening of another provider is in nobody's way."""
    set_limits(ledger, {"google": 1})
    here, there = (
        Party(ledger, owner_id, name, engine) for name, engine in zip("ab", EngineName, strict=True)
    )
    assert all(here.take() for _ in range(6))
    dispatch(ledger, there)
    assert there.busy() == 40


@pytest.mark.parametrize("seed", range(3))
def test_shares_hold_over_a_long_time(ledger: Ledger, owner_id: str, clock: ManualClock, seed: int) -> None:
    """Runs and workers in any order at a provider of three places: nobody starves, shares are kept, no place
    is passed, and none is idle for longer than a note holds."""
    chance = random.Random(seed)
    set_limits(ledger, {"openai": 3})
    parties = [
        Party(ledger, owner_id, "worker", EngineName.CELERY, share=1),
        Party(ledger, owner_id, "one", EngineName.LOCAL, share=1),
        Party(ledger, owner_id, "two", EngineName.LOCAL, share=1),
    ]
    had: Counter[str] = Counter()
    for _ in range(60):
        clock.now_ms += 1_000
        for one in parties:
            if one.running and chance.random() < 0.4:
                one.end()
        order = list(parties)
        chance.shuffle(order)
        for one in order:
            if one.engine is EngineName.CELERY:
                dispatch(ledger, one)
            else:
                while one.take():
                    pass
        assert providers.views(ledger)[0].busy <= 3
        for one in parties:
            had[one.id] += len(one.running)
    assert min(had.values()) >= 40, had
    assert sum(had.values()) >= 130, had
