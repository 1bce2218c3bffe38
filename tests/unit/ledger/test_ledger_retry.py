"""What the database gives up for another unit's sake is run again; nothing else is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg.errors
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import StateError
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.retry import TIMES, retried


def _together(*steps: Callable[[], Any]) -> list[Any]:
    """Run the steps in threads of their own; what each returned or raised."""
    results: list[Any] = [None] * len(steps)

    def run(number: int) -> None:
        try:
            results[number] = steps[number]()
        except Exception as error:  # noqa: BLE001 - the test looks at whatever it is
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def test_a_real_deadlock_is_resolved(
    postgres_ledger: Ledger, postgres_url: str, request: pytest.FixtureRequest
) -> None:
    """Two units that lock the same two rows in opposite order: both get through, the victim later."""
    first, second = (
        plan_stub(postgres_ledger, ["a"], name="one"),
        plan_stub(postgres_ledger, ["a"], name="two"),
    )
    other = open_ledger(postgres_url)
    request.addfinalizer(other.close)
    meet = threading.Barrier(2)
    runs: list[str] = []

    @retried
    def lock_both(ledger: Ledger, one: str, two: str) -> str:
        with ledger.unit_of_work() as connection:
            query = sa.text("UPDATE screening SET window_ms = window_ms + 1 WHERE id = :id")
            connection.execute(query, {"id": one})
            runs.append(one)
            if len(runs) <= 2:
                meet.wait(60)
            connection.execute(query, {"id": two})
        return "done"

    assert _together(
        lambda: lock_both(postgres_ledger, first, second), lambda: lock_both(other, second, first)
    ) == ["done", "done"]
    # The victim may come back before the other one has both rows: then they meet again, and either may lose.
    assert len(runs) >= 3, "one of the two was the victim and ran again"
    assert {row["window_ms"] for row in queries.screenings(postgres_ledger)} == {2}


@pytest.mark.parametrize(
    ("cause", "kind", "calls"),
    [
        (psycopg.errors.DeadlockDetected(), OperationalError, TIMES),
        (psycopg.errors.SerializationFailure(), OperationalError, TIMES),
        (psycopg.errors.UniqueViolation(), IntegrityError, 1),
        (psycopg.errors.LockNotAvailable(), OperationalError, 1),
        (psycopg.OperationalError("the connection is lost"), OperationalError, 1),
    ],
)
def test_only_what_was_given_up_is_repeated(cause: Exception, kind: type[DBAPIError], calls: int) -> None:
    """And not for ever. After a lost connection nobody knows about the COMMIT: the caller has to ask."""
    seen: list[int] = []

    @retried
    def unit() -> None:
        seen.append(1)
        raise kind("statement", {}, cause)

    with pytest.raises(kind):
        unit()
    assert len(seen) == calls


def test_the_same_plan_at_once_is_one_plan(ledger: Ledger, ledger_url: str) -> None:
    """Two commands in the same second: one plans, the other is told to resume."""
    other = open_ledger(ledger_url, ledger.clock)
    meet = threading.Barrier(2)

    def plan(one: Ledger) -> str:
        meet.wait(60)
        return plan_stub(one, ["a", "b"])

    found = _together(lambda: plan(ledger), lambda: plan(other))
    refused = [one for one in found if isinstance(one, StateError)]
    planned = [one for one in found if isinstance(one, str)]
    assert (len(planned), len(refused)) == (1, 1), found
    assert planned[0] in refused[0].message
    assert [row["id"] for row in queries.screenings(ledger)] == planned
    other.close()
