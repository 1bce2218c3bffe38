"""A host keeps its room for a try that waits too long: the decision, and the claim on both databases."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from orchestrator.engine.celery.metrics import figures_of, registry_of
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import hosts, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.invariants import Violation, violations
from orchestrator.ledger.keeping import GRACE_MS, PATIENCE_MS, Kept, Size, Verdict, good_until, judge
from orchestrator.ledger.models import KeptRoom, TrySlot
from orchestrator.ledger.owners import register
from orchestrator.ledger.placement import HostFullError
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import (
    AttemptEnd,
    Claim,
    cancel,
    claim_message,
    end_attempt,
    pause,
    start,
    stop_attempt,
)
from orchestrator.ledger.window import fill, give_back
from scoring.vocabulary import OUTCOME_OF, Phase, Reason
from tests.unit.ledger.conftest import ManualClock

Q = "try.c4m8.cpu4-mem8g"
ROOM = Size(4_000, 8_192)
SMALL, HALF, LARGE = (1_000, 1_024), (2_000, 2_048), (4_000, 1_024)
LIMIT_MS = 600_000


def messages(ledger: Ledger, name: str, count: int, needs: tuple[int, int]) -> list[Message]:
    tasks = [f"t{n}" for n in range(count)]
    options = {"tries": 1, "engine": EngineName.CELERY, "queue": Q, "needs": needs, "limit_ms": LIMIT_MS}
    screening = plan_stub(ledger, tasks, name=name, **options)  # type: ignore[arg-type]
    start(ledger, screening, who="test")
    return fill(ledger, {Q: 999}, who="d")


class Place:
    """One place of one worker of a host."""

    def __init__(self, ledger: Ledger, host: str = "lab") -> None:
        self.ledger = ledger
        self.worker_id = hosts.enter(ledger, WorkerRole.WORKER, host_name=host, slots=4, queues=[Q])
        self.owner_id = register(ledger, self.worker_id).id

    def takes(self, message: Message) -> Claim | None:
        """The claim; None where the host has no room for it, and then it is told again, as a worker does."""
        try:
            held = claim_message(
                self.ledger,
                message.slot_id,
                message.generation,
                self.owner_id,
                lease_ms=LIMIT_MS,
                worker_id=self.worker_id,
                room=ROOM,
            )
        except HostFullError:
            assert give_back(self.ledger, message.slot_id, message.generation)
            return None
        assert held is not None
        return held


def noted(ledger: Ledger) -> dict[str, str]:
    """The slot that each host waits for."""
    with ledger.reading() as connection:
        return {row.host_name: row.slot_id for row in connection.execute(sa.select(KeptRoom.__table__))}


def test_what_is_in_the_way_of_one_that_waits_is_refused() -> None:
    """After its patience and until its end; what fits beside both is in nobody's way, nor is it itself."""
    kept = Kept("large", Size(*LARGE), 0, good_until(0, 0, 5 * PATIENCE_MS))
    one = Size(*SMALL)

    def asked(slot: str, need: Size, taken: Size, now: int, waiting: Kept | None = kept) -> Verdict:
        return judge(ROOM, taken, slot, need, waiting, now)

    assert asked("small", one, one, PATIENCE_MS - 1) is Verdict.FITS
    assert asked("small", one, one, PATIENCE_MS) is Verdict.KEPT
    assert asked("small", one, one, kept.until_ms - 1) is Verdict.KEPT
    assert asked("small", one, one, kept.until_ms) is Verdict.FITS
    assert asked("small", one, one, PATIENCE_MS, None) is Verdict.FITS
    assert asked("small", one, Size(*LARGE), PATIENCE_MS) is Verdict.FULL
    assert asked("large", Size(*LARGE), one, PATIENCE_MS) is Verdict.FULL
    assert asked("large", Size(*LARGE), Size(0, 0), PATIENCE_MS) is Verdict.FITS
    half = Kept("half", Size(*HALF), 0, kept.until_ms)
    assert asked("small", one, one, PATIENCE_MS, half) is Verdict.FITS
    assert asked("small", one, Size(*HALF), PATIENCE_MS, half) is Verdict.KEPT


def test_a_wait_ends() -> None:
    """It outlasts whatever runs and its own patience, and a lost message after that; nothing more."""
    assert good_until(0, 0, 0) == PATIENCE_MS + GRACE_MS
    assert good_until(0, 9 * PATIENCE_MS, 0) == 9 * PATIENCE_MS + GRACE_MS
    assert good_until(0, 0, 9 * PATIENCE_MS) == 9 * PATIENCE_MS + GRACE_MS


def broken(ledger: Ledger) -> list[Violation]:
    """What is wrong, but for beats and messages in time: hours pass here between two of them."""
    return [one for one in violations(ledger) if one.number != 11]


def shown(ledger: Ledger) -> list[tuple[str, float]]:
    """What `assize metrics` says of kept room."""
    figures: list[Any] = figures_of(registry_of(ledger, Times()))
    return [
        (one["labels"]["host"], one["value"]) for one in figures if one["name"] == "assize_room_kept_seconds"
    ]


def end(ledger: Ledger, *held: Claim | None) -> None:
    for one in held:
        assert one is not None
        stop_attempt(ledger, one, who="test")


def test_small_tries_starve_no_large_one_and_the_other_way_round(ledger: Ledger, clock: ManualClock) -> None:
    """The host is emptied for the large one, whichever of its workers asks; then small ones go on."""
    first, second = Place(ledger), Place(ledger)
    small = messages(ledger, "small", 9, SMALL)
    large, other = messages(ledger, "large", 2, LARGE)
    running = [first.takes(small[0]), second.takes(small[1])]
    assert first.takes(large) is None and noted(ledger) == {"lab": large.slot_id}
    clock.now_ms += PATIENCE_MS - 1
    assert shown(ledger) == []
    running.append(first.takes(small[2]))
    clock.now_ms += 1_001
    assert shown(ledger) == [("lab", 1.0)]
    assert second.takes(small[3]) is None and second.takes(large) is None and second.takes(other) is None
    end(ledger, *running[:2])
    assert first.takes(small[3]) is None and first.takes(large) is None
    end(ledger, running[2])
    # Nothing runs, and still it is the large one's turn; the worker that asked for it first may be gone.
    assert first.takes(small[3]) is None and first.takes(other) is None
    held = second.takes(large)
    assert held is not None and noted(ledger) == {}
    assert second.takes(other) is None and noted(ledger) == {"lab": other.slot_id}
    end(ledger, held)
    clock.now_ms += PATIENCE_MS - 1
    assert first.takes(small[3]) is not None and broken(ledger) == []


@pytest.mark.parametrize("steer", [cancel, pause])
def test_nobody_is_kept_waiting_for_a_try_that_waits_no_more(
    ledger: Ledger, clock: ManualClock, steer: Callable[..., object]
) -> None:
    """Its screening was paused or cancelled: the next claim finds that and goes on."""
    place = Place(ledger)
    small = messages(ledger, "small", 3, SMALL)
    (large,) = messages(ledger, "large", 1, LARGE)
    assert place.takes(small[0]) is not None and place.takes(large) is None
    clock.now_ms += PATIENCE_MS
    assert place.takes(small[1]) is None
    (screening,) = [one["id"] for one in queries.screenings(ledger) if one["planned_slots"] == 1]
    steer(ledger, screening, who="test")
    assert place.takes(small[1]) is not None and noted(ledger) == {}


def test_nobody_is_kept_waiting_for_a_re_run_that_pauses(ledger: Ledger, clock: ManualClock) -> None:
    """It ran elsewhere meanwhile, and may not start again yet; its old message is no wait either."""
    lab, other = Place(ledger), Place(ledger, "other")
    small = messages(ledger, "small", 3, SMALL)
    (large,) = messages(ledger, "large", 1, LARGE)
    assert lab.takes(small[0]) is not None and lab.takes(large) is None
    clock.now_ms += PATIENCE_MS
    held = other.takes(large)
    assert held is not None
    ends(ledger, held, Reason.ENGINE_ERROR, GRACE_MS)
    assert lab.takes(small[1]) is not None and noted(ledger) == {}
    old = {"lease_ms": LIMIT_MS, "worker_id": lab.worker_id, "room": ROOM}
    assert claim_message(ledger, large.slot_id, large.generation, lab.owner_id, **old) is None  # type: ignore[arg-type]
    assert noted(ledger) == {}


def test_a_try_that_does_not_ask_again_keeps_nothing_for_ever(ledger: Ledger, clock: ManualClock) -> None:
    """Its message may never come to this host again, which must not stand still for that."""
    place = Place(ledger)
    small = messages(ledger, "small", 3, SMALL)
    (large,) = messages(ledger, "large", 1, LARGE)
    running = place.takes(small[0])
    assert place.takes(large) is None
    clock.now_ms += LIMIT_MS
    end(ledger, running)
    assert place.takes(small[1]) is None
    clock.now_ms += GRACE_MS - 1
    assert place.takes(small[1]) is None
    clock.now_ms += 1
    assert place.takes(small[1]) is not None and noted(ledger) == {}
    assert place.takes(large) is None
    clock.now_ms += PATIENCE_MS - 1
    assert place.takes(small[2]) is not None


def test_one_host_waits_for_a_try_and_any_host_may_take_it(ledger: Ledger, clock: ManualClock) -> None:
    """A second host stays open for others; where the first is gone, it waits after the end of that note."""
    lab, other = Place(ledger), Place(ledger, "other")
    small = messages(ledger, "small", 9, SMALL)
    large, more = messages(ledger, "large", 2, LARGE)
    running = lab.takes(small[0]), other.takes(small[1])
    assert lab.takes(large) is None and other.takes(large) is None
    assert noted(ledger) == {"lab": large.slot_id}
    clock.now_ms += PATIENCE_MS
    assert lab.takes(small[2]) is None
    extra = other.takes(small[2])
    end(ledger, running[1], extra)
    assert other.takes(large) is not None
    assert lab.takes(small[3]) is not None and noted(ledger) == {}
    assert lab.takes(more) is None and noted(ledger) == {"lab": more.slot_id}
    clock.now_ms += LIMIT_MS + GRACE_MS + 1
    assert other.takes(more) is None and noted(ledger) == {"other": more.slot_id}
    hosts.set_draining(ledger, "other", True)
    assert lab.takes(more) is None and noted(ledger) == {"lab": more.slot_id}
    assert broken(ledger) == []


@pytest.mark.parametrize("seed", range(2))
def test_any_mix_of_tries_goes_on(ledger: Ledger, clock: ManualClock, seed: int) -> None:
    """A host of four places over hours: its room is never passed, and no try waits for long.

    Small tries never run out. As in the window of a queue, eight of them are told at a time, and a free place
    that has no room for one asks for the next after two seconds.
    """
    chance, places = random.Random(seed), [Place(ledger) for _ in range(4)]
    sizes = {one.slot_id: SMALL for one in messages(ledger, "small", 150, SMALL)}
    backlog = deque(_told(ledger, sizes))
    queue = deque([backlog.popleft() for _ in range(8)])
    for number, needs in enumerate((LARGE, HALF, LARGE, (9_000, 9_000))):
        for one in messages(ledger, f"other {number}", 1, needs):
            sizes[one.slot_id] = needs
            queue.insert(chance.randrange(8), one)
    waits = {slot: clock.now_ms for slot, needs in sizes.items() if needs != SMALL}
    running: dict[int, tuple[Claim, int]] = {}
    while waits:
        clock.now_ms += 20_000
        for place, (held, until) in list(running.items()):
            if until <= clock.now_ms:
                ends(ledger, held)
                del running[place]
        for place in set(range(4)) - set(running):
            for _ in range(10):
                one = queue.popleft()
                held_now = places[place].takes(one)
                if held_now is not None:
                    break
                queue.append(one)
            else:
                continue
            running[place] = held_now, clock.now_ms + chance.randrange(1, LIMIT_MS)
            if waits.pop(one.slot_id, None) is None:
                queue.append(backlog.popleft())
        used = [sizes[held.slot_id] for held, _ in running.values()]
        if len(used) > 1:
            assert sum(cpus for cpus, _ in used) <= 4_000 and sum(memory for _, memory in used) <= 8_192
        assert used or noted(ledger)
        # Each of the large ones waits for those before it, and the longest small one, once.
        bound = len(sizes) - 150
        assert all(clock.now_ms - since <= bound * (PATIENCE_MS + 2 * LIMIT_MS) for since in waits.values())
    assert broken(ledger) == []


def _told(ledger: Ledger, slots: Mapping[str, object]) -> list[Message]:
    """Messages of queued slots, as they were told."""
    with ledger.reading() as connection:
        rows = connection.execute(sa.select(TrySlot.id, TrySlot.generation).where(TrySlot.id.in_(slots)))
        return [Message(row.id, row.generation, Q, LIMIT_MS) for row in rows]


def ends(ledger: Ledger, held: Claim, reason: Reason = Reason.ALL_CHECKS_PASSED, pause_ms: int = 0) -> None:
    """The attempt is recorded and its slot done, or after a fault to be run again."""
    end = AttemptEnd(
        outcome=OUTCOME_OF[reason],
        reason=reason,
        phase=Phase.GRADE,
        rule="test",
        manifest_digest=held.attempt_id.ljust(64, "0"),
        nusd=0,
        details={"evidence": []},
    )
    end_attempt(ledger, held, end, back_off_ms=pause_ms)
