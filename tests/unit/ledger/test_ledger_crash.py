"""kill -9 at every statement boundary of every transition: all or nothing, and the repeat is harmless.

On PostgreSQL also as the server sees it: the session is ended before each statement and around the COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg.sql
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import (
    Answer,
    AttemptEnd,
    Claim,
    cancel,
    claim,
    close,
    end_attempt,
    queue,
    start,
    stop_attempt,
)
from scoring.vocabulary import Reason
from tests.assets.services.postgres import PostgresServer

MakeEnd = Callable[..., AttemptEnd]
TABLES = ("screening", "try_slot", "attempt", "evidence", "spend_entry", "event", "certificate")


class CrashError(BaseException):
    """The process dies here."""


def picture(ledger: Ledger) -> list[Any]:
    with ledger.reading() as connection:
        return [connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1").all() for table in TABLES]


class Boundary:
    """Dies before statement `at` of the write unit; counts how many statements there were."""

    def __init__(self, ledger: Ledger) -> None:
        self.at: int | None = None
        self.count = 0
        event.listen(ledger.engine, "before_cursor_execute", self._statement)

    def _statement(self, *_args: object) -> None:
        if self.at is None:
            return
        if self.count == self.at:
            self.at = None
            raise CrashError
        self.count += 1


@pytest.fixture
def held(ledger: Ledger, owner_id: str) -> Claim:
    screening = plan_stub(ledger, ["a", "b"], tries=1, cap_nusd=100, try_cap_nusd=10)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    taken = claim(ledger, screening, owner_id, lease_ms=1000)
    assert taken is not None
    return taken


def crash_everywhere(ledger: Ledger, step: Callable[[], Any]) -> tuple[Any, int]:
    """Crash `step` before each of its statements in turn, then let it through."""
    boundary = Boundary(ledger)
    before = picture(ledger)
    for at in range(50):
        boundary.at, boundary.count = at, 0
        try:
            answer = step()
        except CrashError:
            assert picture(ledger) == before, f"statement {at} left something behind"
            continue
        boundary.at = None
        return answer, at
    raise AssertionError("the step never got through")


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        (Reason.ALL_CHECKS_PASSED, Answer.RECORDED),
        (Reason.ENGINE_ERROR, Answer.REQUEUED),
        (Reason.AGENT_NOT_STARTABLE, Answer.UNCOUNTABLE),
    ],
)
def test_record_is_all_or_nothing(
    ledger: Ledger, held: Claim, end: MakeEnd, reason: Reason, answer: Answer
) -> None:
    """Section 10, item 3: no double count, no half record, and the repeat after the COMMIT is answered."""
    found, statements = crash_everywhere(ledger, lambda: end_attempt(ledger, held, end(reason)))
    assert found is answer
    assert statements >= 5
    after = picture(ledger)
    assert end_attempt(ledger, held, end(reason)) is Answer.ALREADY_RECORDED
    assert picture(ledger) == after
    assert violations(ledger) == []


def test_other_transitions_are_all_or_nothing(
    ledger: Ledger, held: Claim, owner_id: str, end: MakeEnd
) -> None:
    """queue, claim, stop, cancel and close under the same knife."""
    screening = held.screening_id
    assert crash_everywhere(ledger, lambda: queue(ledger, screening, 5))[0] == 1
    second, _ = crash_everywhere(ledger, lambda: claim(ledger, screening, owner_id, lease_ms=1000))
    assert second is not None
    assert crash_everywhere(ledger, lambda: stop_attempt(ledger, second, who="t"))[0] is Answer.REQUEUED
    assert crash_everywhere(ledger, lambda: cancel(ledger, screening, who="t"))[0] == 1
    assert crash_everywhere(ledger, lambda: stop_attempt(ledger, held, who="t"))[0] is Answer.CANCELLED
    assert crash_everywhere(ledger, lambda: close(ledger, screening, who="t"))[0] == "cancelled"
    assert violations(ledger) == []


def test_planning_is_all_or_nothing(ledger: Ledger) -> None:
    """A plan is never half there: opening and slots are one promise."""
    screening, _ = crash_everywhere(ledger, lambda: plan_stub(ledger, ["a", "b", "c"]))
    assert queries.status(ledger, screening).total == 9
    assert len(queries.screenings(ledger)) == 1


class Cut:
    """Ends the server's session of a unit before its n-th statement, before its COMMIT or right after it."""

    def __init__(self, ledger: Ledger, server: PostgresServer) -> None:
        self.at: int | None = None
        self.after_commit = False
        self._server = server
        event.listen(ledger.engine, "before_cursor_execute", lambda connection, *_: self._pass(connection))
        event.listen(ledger.engine, "commit", self._commit)

    def _commit(self, connection: Connection) -> None:
        if self.after_commit:
            self.after_commit = False
            # The server has committed, and the client never hears of it.
            connection.connection.driver_connection.commit()  # type: ignore[union-attr]
            self._end(connection)
            connection.exec_driver_sql("SELECT 1")
        self._pass(connection)

    def _pass(self, connection: Connection) -> None:
        if self.at is None:
            return
        if self.at == 0:
            self.at = None
            self._end(connection)
            return
        self.at -= 1

    def _end(self, connection: Connection) -> None:
        pid = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
        number = psycopg.sql.Literal(pid)
        ended = psycopg.sql.SQL("SELECT pg_terminate_backend({}, 60000)").format(number)
        assert self._server.execute(ended) == [(True,)]


@pytest.mark.parametrize(
    ("reason", "answer"),
    [(Reason.ALL_CHECKS_PASSED, Answer.RECORDED), (Reason.ENGINE_ERROR, Answer.REQUEUED)],
)
def test_record_survives_a_cut_connection(
    postgres_server: PostgresServer, postgres_url: str, end: MakeEnd, reason: Reason, answer: Answer
) -> None:
    """Section 10, item 3, on the wire: the caller sees an error and asks again; one record, one payment."""
    ledger = open_ledger(postgres_url)
    screening = plan_stub(ledger, ["a"], tries=1, cap_nusd=100, try_cap_nusd=10)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, register(ledger).id, lease_ms=1000)
    assert held is not None
    cut = Cut(ledger, postgres_server)
    before = picture(ledger)
    for at in range(40):
        cut.at = at
        try:
            found = end_attempt(ledger, held, end(reason), back_off_ms=0)
        except OperationalError as error:
            assert error.connection_invalidated
            cut.at = None
            assert picture(ledger) == before, f"cut before statement {at} left something behind"
            continue
        break
    assert at >= 6 and found is answer
    cut.at = None
    after = picture(ledger)
    assert end_attempt(ledger, held, end(reason)) is Answer.ALREADY_RECORDED
    assert picture(ledger) == after
    assert violations(ledger) == []
    ledger.close()


def test_record_survives_a_cut_after_its_commit(
    postgres_server: PostgresServer, postgres_url: str, end: MakeEnd
) -> None:
    """Nobody can tell a lost answer from a lost COMMIT; the repeat is answered with what was recorded."""
    ledger = open_ledger(postgres_url)
    screening = plan_stub(ledger, ["a"], tries=1, cap_nusd=100, try_cap_nusd=10)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, register(ledger).id, lease_ms=1000)
    assert held is not None
    cut = Cut(ledger, postgres_server)
    cut.after_commit = True
    with pytest.raises(OperationalError):
        end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED))
    after = picture(ledger)
    assert end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED)) is Answer.ALREADY_RECORDED
    assert picture(ledger) == after
    status = queries.status(ledger, screening)
    assert (status.used_nusd, status.reserved_nusd) == (7, 0)
    assert violations(ledger) == []
    ledger.close()
