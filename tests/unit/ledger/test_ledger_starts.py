"""Starts that are spread over a window, and the hours at which tries really began."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.starts import hours_text, start_hours
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import AttemptEnd, claim_message, end_attempt, start, stop_attempt
from orchestrator.ledger.window import fill
from scoring.vocabulary import Reason
from tests.unit.ledger.conftest import ManualClock

Q = "try.c1m1.cpu1-mem1g"
HOUR_MS = 3_600_000


def test_nothing_starts_before_its_instant(
    ledger: Ledger, owner_id: str, clock: ManualClock, end: Callable[..., AttemptEnd]
) -> None:
    """4.5: each try begins at its own instant within the window; only counted ones are in the hours."""
    begin = queries.now_ms(ledger)
    names = [f"t{n}" for n in range(40)]
    options = {"engine": EngineName.CELERY, "queue": Q, "start_ms": begin, "window_ms": 5 * HOUR_MS}
    screening = plan_stub(ledger, names, tries=1, **options)  # type: ignore[arg-type]
    start(ledger, screening, who="test")
    ran, first, wanted = 0, None, dict[int, int]()
    for _ in range(6):
        for message in fill(ledger, {Q: 99}, who="d"):
            held = claim_message(ledger, message.slot_id, 1, owner_id, lease_ms=60_000)
            assert held is not None
            if first is None:
                first = held
                stop_attempt(ledger, held, who="test")
                continue
            hour = queries.now_ms(ledger) // HOUR_MS % 24
            wanted[hour] = wanted.get(hour, 0) + 1
            end_attempt(ledger, held, end(Reason.WRONG_OUTPUT, digest=held.slot_id[-1].lower() * 64))
            ran += 1
        clock.now_ms += HOUR_MS
    assert first is not None and ran >= 30
    assert len(wanted) >= 4 and start_hours(ledger, screening) == dict(sorted(wanted.items()))


def test_hours_are_said_in_words() -> None:
    """For the line of a page."""
    assert hours_text({}) == "none yet"
    assert hours_text({13: 2, 8: 1}) == "in 2 of 24 hours (UTC): 08h 1, 13h 2"
