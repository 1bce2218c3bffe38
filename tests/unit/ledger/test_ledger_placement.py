"""A host claims what it has room for: declared cores and memory of all that runs there, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import hosts, placement, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.owners import register
from orchestrator.ledger.placement import HostFullError, Size
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import Claim, claim_message, start, stop_attempt
from orchestrator.ledger.window import fill
from orchestrator.planning.classes import size_of

Q = "try.c1m1.cpu1-mem1g"
ROOM = Size(4_000, 8_192)


def messages(ledger: Ledger, count: int, needs: tuple[int, int], name: str = "one") -> list[Message]:
    screening = plan_stub(
        ledger,
        [f"t{n}" for n in range(count)],
        tries=1,
        name=name,
        engine=EngineName.CELERY,
        queue=Q,
        needs=needs,
    )
    start(ledger, screening, who="test")
    return fill(ledger, {Q: 999}, who="d")


class Place:
    """One place of one worker."""

    def __init__(self, ledger: Ledger, host: str) -> None:
        self.ledger = ledger
        self.worker_id = hosts.enter(ledger, WorkerRole.WORKER, host_name=host, slots=4, queues=[Q])
        self.owner_id = register(ledger, self.worker_id).id

    def claim(self, message: Message, room: Size | None = ROOM) -> Claim | None:
        return claim_message(
            self.ledger,
            message.slot_id,
            message.generation,
            self.owner_id,
            lease_ms=60_000,
            worker_id=self.worker_id,
            room=room,
        )


def test_sizes() -> None:
    """Cores and memory both count, and the first one always fits."""
    full, none = Size(4_000, 8_192), Size(0, 0)
    assert full.holds(none, Size(9_000, 99_999))
    assert full.holds(Size(2_000, 4_096), Size(2_000, 4_096))
    assert not full.holds(Size(2_000, 4_096), Size(2_001, 1))
    assert not full.holds(Size(2_000, 4_096), Size(1, 4_097))
    assert size_of("cpu4-mem8g") == (4_000, 8_192) and size_of("a-laptop") is None


def test_a_host_is_counted_over_its_workers(ledger: Ledger) -> None:
    """Two workers of one host share it; another host has its own; an end makes room."""
    first, second, other = Place(ledger, "lab"), Place(ledger, "lab"), Place(ledger, "elsewhere")
    told = messages(ledger, 4, (2_000, 1_024))
    one, two = first.claim(told[0]), second.claim(told[1])
    assert one is not None and two is not None
    assert placement.taken(ledger, first.worker_id) == Size(4_000, 2_048)
    with pytest.raises(HostFullError, match="lab has no room"):
        second.claim(told[2])
    assert other.claim(told[2]) is not None
    stop_attempt(ledger, one, who="test")
    assert second.claim(told[3]) is not None
    assert violations(ledger) == []


def test_a_refusal_for_room_changes_nothing(ledger: Ledger) -> None:
    """The slot stays queued for whoever has room."""
    place = Place(ledger, "lab")
    told = messages(ledger, 2, (3_000, 1_024))
    assert place.claim(told[0]) is not None
    with pytest.raises(HostFullError):
        place.claim(told[1])
    (row,) = [
        view.row
        for view in queries.tries(ledger, queries.screenings(ledger)[0]["id"], state=SlotState.QUEUED)
    ]
    assert (row["id"], row["token"]) == (told[1].slot_id, 0)


@pytest.mark.parametrize(("needs", "room"), [((0, 0), ROOM), ((9_000, 99_999), None)])
def test_what_is_not_known_bounds_nothing(ledger: Ledger, needs: tuple[int, int], room: Size | None) -> None:
    """Slots of before this version, and hosts whose class says no sizes."""
    place = Place(ledger, "lab")
    assert all(place.claim(one, room) is not None for one in messages(ledger, 6, needs))


def test_a_duplicate_is_refused_and_not_called_too_large(ledger: Ledger) -> None:
    """A stale message of a full host is no reason to wait."""
    place = Place(ledger, "lab")
    (one,) = messages(ledger, 1, (3_000, 1_024))
    assert place.claim(one) is not None
    assert place.claim(one) is None


def test_claims_of_one_host_at_once_never_pass_it(ledger: Ledger) -> None:
    """Counted and claimed in one unit, one claim of a host at a time."""
    places = [Place(ledger, "lab") for _ in range(6)]
    told = messages(ledger, 6, (1_500, 1_024))

    def work(number: int) -> bool:
        try:
            return places[number].claim(told[number]) is not None
        except HostFullError:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) == 2
