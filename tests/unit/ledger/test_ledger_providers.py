"""Tries at a provider: one number over all hosts, screenings and engines, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import sqlalchemy as sa

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import providers, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.providers import ProviderFullError, ProviderView, add_limits, set_limits
from orchestrator.ledger.shares import Demand, allot
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import (
    cancel,
    claim,
    claim_message,
    hand_to,
    pause,
    queue,
    start,
    stop_attempt,
)
from orchestrator.ledger.waits import WAIT_MS
from orchestrator.ledger.window import fill
from tests.unit.ledger.conftest import ManualClock

Q = "try.c1m1.cpu1-mem1g"
BIG = "try.c4m8.cpu8-mem32g"


def campaign(ledger: Ledger, name: str, *served: str, tasks: int = 6, **options: object) -> str:
    settings = {"tries": 1, "engine": EngineName.CELERY, "queue": Q, "providers": served, **options}
    screening = plan_stub(ledger, [f"t{n}" for n in range(tasks)], name=name, **settings)  # type: ignore[arg-type]
    start(ledger, screening, who="test")
    return screening


def queued(ledger: Ledger, *screenings: str) -> list[int]:
    return [queries.status(ledger, one).slots[SlotState.QUEUED] for one in screenings]


def test_allot_keeps_a_provider_to_its_room() -> None:
    """All its screenings together; the places that it leaves go to others."""
    wanted = [Demand("one", 1, 0, 9, ("p",)), Demand("two", 1, 0, 9, ("p", "q")), Demand("free", 1, 0, 9)]
    assert allot(20, wanted, {"p": 3, "q": 9}) == {"one": 2, "two": 1, "free": 9}
    assert allot(20, wanted, {"p": 3, "q": 0}) == {"one": 3, "free": 9}
    assert allot(4, wanted, {"p": -1}) == {"free": 4}
    assert allot(6, wanted, {}) == allot(6, wanted) == {"one": 2, "two": 2, "free": 2}


def test_limits_are_replaced_as_a_whole(ledger: Ledger) -> None:
    """What the operator's file no longer says does not hold."""
    assert set_limits(ledger, {"openai": 8, "google": 2})
    assert not set_limits(ledger, {"google": 2, "openai": 8})
    assert set_limits(ledger, {"openai": 4, "x-ai": 1})
    assert providers.views(ledger) == [ProviderView("openai", 0, 4), ProviderView("x-ai", 0, 1)]
    assert set_limits(ledger, {}) and providers.views(ledger) == []


def test_limits_are_added_to_those_of_others(ledger: Ledger) -> None:
    """Whoever knows of some providers only leaves the rest alone."""
    assert set_limits(ledger, {"openai": 8, "google": 2})
    assert not add_limits(ledger, {}) and not add_limits(ledger, {"google": 2})
    assert add_limits(ledger, {"openai": 4, "x-ai": 1})
    assert [(one.provider, one.most) for one in providers.views(ledger)] == [
        ("google", 2),
        ("openai", 4),
        ("x-ai", 1),
    ]


@pytest.mark.parametrize("bring", [set_limits, add_limits])
def test_processes_that_bring_the_first_limits_at_once_all_succeed(
    ledger: Ledger, ledger_url: str, bring: Callable[[Ledger, dict[str, int]], bool]
) -> None:
    """Each has found no row before any of them has written one."""
    meet = threading.Barrier(2)

    def clock(connection: sa.Connection) -> int:
        # On SQLite the second writer waits for the first one, so that they cannot meet.
        if connection.dialect.name == "postgresql":
            meet.wait(60)
        return 1

    both = [open_ledger(ledger_url, clock) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: bring(one, {"openai": 3, "google": 1}), both))
    assert [one.most for one in providers.views(ledger)] == [1, 3]
    for one in both:
        one.close()


def test_the_ledger_itself_refuses_a_limit_of_nothing(ledger: Ledger) -> None:
    """A provider that may serve nobody is one that is not configured."""
    with pytest.raises(sa.exc.IntegrityError):
        set_limits(ledger, {"openai": 0})


def test_a_provider_gets_no_more_tries_than_its_limit(
    ledger: Ledger, owner_id: str, clock: ManualClock
) -> None:
    """Over screenings and queues; queued and running ones count, and an end makes room."""
    set_limits(ledger, {"openai": 4})
    one = campaign(ledger, "one", "openai")
    clock.now_ms += 1  # the older of two that are due the same gets the odd place
    two = campaign(ledger, "two", "openai", "google", queue=BIG)
    other = campaign(ledger, "other", "google")
    (mine,) = fill(ledger, {BIG: 1}, who="d")
    fill(ledger, {Q: 99, BIG: 99}, who="d")
    assert queued(ledger, one, two, other) == [3, 1, 6]
    assert fill(ledger, {Q: 99, BIG: 99}, who="d") == []
    held = claim_message(ledger, mine.slot_id, mine.generation, owner_id, lease_ms=60_000)
    assert held is not None and providers.views(ledger) == [ProviderView("openai", 4, 4)]
    assert fill(ledger, {Q: 99, BIG: 99}, who="d") == []
    cancel(ledger, two, who="test")
    stop_attempt(ledger, held, who="test", nusd=None)
    assert providers.views(ledger)[0].busy == queued(ledger, one)[0]
    fill(ledger, {Q: 99, BIG: 99}, who="d")
    assert queued(ledger, one) == [4] and violations(ledger) == []


def test_a_lower_limit_starts_nothing_until_enough_has_ended(ledger: Ledger) -> None:
    """What was told already is left alone; a pause gives the places back."""
    one, two = campaign(ledger, "one", "openai"), campaign(ledger, "two", "openai")
    fill(ledger, {Q: 4}, who="d")
    set_limits(ledger, {"openai": 2})
    assert fill(ledger, {Q: 99}, who="d") == [] and sum(queued(ledger, one, two)) == 4
    pause(ledger, one, who="test")
    assert fill(ledger, {Q: 99}, who="d") == [] and queued(ledger, one, two) == [0, 2]
    set_limits(ledger, {})
    fill(ledger, {Q: 99}, who="d")
    assert queued(ledger, one, two) == [0, 6]


def test_the_engine_of_one_machine_keeps_to_it_too(ledger: Ledger, owner_id: str) -> None:
    """The same ledger, whoever dispatches; it asks when it claims, and without such a model not at all."""
    set_limits(ledger, {"openai": 3})
    there = campaign(ledger, "there", "openai")
    fill(ledger, {Q: 2}, who="d")
    here = campaign(ledger, "here", "google", "openai", engine=EngineName.LOCAL)
    free = campaign(ledger, "free", engine=EngineName.LOCAL)
    assert [queue(ledger, one, 99) for one in (here, free)] == [6, 6]
    held = claim(ledger, here, owner_id, lease_ms=60_000)
    assert held is not None and providers.views(ledger) == [ProviderView("openai", 3, 3)]
    with pytest.raises(ProviderFullError) as full:
        claim(ledger, here, owner_id, lease_ms=60_000)
    assert (full.value.provider, full.value.most) == ("openai", 3)
    assert queries.status(ledger, here).slots[SlotState.RUNNING] == 1
    assert fill(ledger, {Q: 99}, who="d") == [] and queued(ledger, there) == [2]
    assert claim(ledger, free, owner_id, lease_ms=60_000) is not None
    stop_attempt(ledger, held, who="test", nusd=None)
    assert claim(ledger, here, owner_id, lease_ms=60_000) is not None and violations(ledger) == []


def test_a_process_that_is_gone_holds_no_place(ledger: Ledger, owner_id: str) -> None:
    """What it had queued ahead waits for the same command again, and not at the provider."""
    set_limits(ledger, {"openai": 4})
    gone = campaign(ledger, "gone", "openai", engine=EngineName.LOCAL)
    queue(ledger, gone, 32)
    assert providers.views(ledger) == [ProviderView("openai", 0, 4)]
    here = campaign(ledger, "here", "openai", engine=EngineName.LOCAL)
    there = campaign(ledger, "there", "openai")
    queue(ledger, here, 32)
    assert claim(ledger, here, owner_id, lease_ms=60_000) is not None
    assert len(fill(ledger, {Q: 99}, who="d")) == 3 and queued(ledger, gone, there) == [6, 3]


@pytest.mark.parametrize("engine", list(EngineName))
def test_a_screening_that_is_handed_over_brings_no_queue_along(ledger: Ledger, engine: EngineName) -> None:
    """Its new engine queues by its own rules, and the old one's messages claim nothing."""
    set_limits(ledger, {"openai": 4})
    screening = campaign(ledger, "moved", "openai", engine=engine)
    fill(ledger, {Q: 99}, who="d")
    queue(ledger, screening, 99)
    to = next(one for one in EngineName if one is not engine)
    assert queued(ledger, screening) == [6 if engine is EngineName.LOCAL else 4]
    assert hand_to(ledger, screening, to, who="test", share=2)
    assert queued(ledger, screening) == [0] and providers.views(ledger) == [ProviderView("openai", 0, 4)]
    assert (queue(ledger, screening, 99), len(fill(ledger, {Q: 99}, who="d"))) == (
        (6, 0) if to is EngineName.LOCAL else (0, 4)
    )
    assert hand_to(ledger, screening, to, who="test", share=3)
    assert queued(ledger, screening) == [6 if to is EngineName.LOCAL else 4] and violations(ledger) == []


def test_both_engines_at_once_never_pass_it(ledger: Ledger, owner_id: str, clock: ManualClock) -> None:
    """They count and begin in turns. What was kept for one that does not come back is given to others."""
    set_limits(ledger, {"openai": 5})
    names = [f"local-{n}" for n in range(3)]
    here = [campaign(ledger, name, "openai", engine=EngineName.LOCAL) for name in names]
    campaign(ledger, "there", "openai", tasks=20)

    def work(turn: int) -> None:
        for _ in range(3):
            if turn < len(here):
                queue(ledger, here[turn], 4)
                with suppress(ProviderFullError):
                    claim(ledger, here[turn], owner_id, lease_ms=60_000)
            else:
                fill(ledger, {Q: 4}, who="d")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    assert providers.views(ledger)[0].busy <= 5
    clock.now_ms += WAIT_MS
    fill(ledger, {Q: 99}, who="d")
    assert providers.views(ledger) == [ProviderView("openai", 5, 5)] and violations(ledger) == []
