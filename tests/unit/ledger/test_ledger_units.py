"""Units of work: immediate for writing, plain for reading, all or nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from orchestrator.ledger.db import Ledger, file_lock, system_clock
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.postgres import IDLE_IN_UNIT_MS, LOCK_WAIT_MS

ROUNDS = 60


PROGRAM = """
import sys
import sqlalchemy as sa
from orchestrator.ledger.db import Ledger, create_engine

path, begin, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger(create_engine(f"sqlite:///{path}"))
unit = ledger.unit_of_work if begin == "immediate" else ledger.reading
refused = 0
for _ in range(rounds):
    try:
        with unit() as connection:
            value = connection.exec_driver_sql("SELECT v FROM counter").scalar_one()
            connection.exec_driver_sql("UPDATE counter SET v = ?", (value + 1,))
    except sa.exc.OperationalError:
        refused += 1
print(refused)
"""


def _contend(path: Path, begin: str) -> tuple[int, int]:
    """(refused units, counter) after four processes did the same read-then-write unit under `begin`."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE counter (v INTEGER)")
        connection.execute("INSERT INTO counter VALUES (0)")
        connection.commit()
    command = [sys.executable, "-c", PROGRAM, str(path), begin, str(ROUNDS)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    refused = sum(int(worker.communicate()[0]) for worker in workers)
    with closing(sqlite3.connect(path)) as connection:
        return refused, connection.execute("SELECT v FROM counter").fetchone()[0]


def test_write_units_of_four_processes_never_fail(tmp_path: Path) -> None:
    """Section 7: under BEGIN IMMEDIATE no read-then-write unit is refused and none is lost."""
    assert _contend(tmp_path / "counter.db", "immediate") == (0, 4 * ROUNDS)


def test_the_deferred_control_loses_units(tmp_path: Path) -> None:
    """The same under the default BEGIN: what commits is counted right, and refusals do happen or none did.

    Kept as the control of the proof above: every refused unit must be missing from the counter, so a unit
    is never half done. How many are refused depends on the machine.
    """
    refused, counted = _contend(tmp_path / "counter.db", "deferred")
    assert counted == 4 * ROUNDS - refused


def test_begin_statements_are_what_they_should_be(sqlite_ledger: Ledger) -> None:
    """The mode is decided by the kind of unit, not by what is executed in it."""
    seen: list[str] = []

    @event.listens_for(sqlite_ledger.engine, "before_cursor_execute")
    def note(_c: object, _k: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    with sqlite_ledger.unit_of_work():
        pass
    with sqlite_ledger.reading():
        pass
    assert seen == ["BEGIN IMMEDIATE", "BEGIN"]


def test_isolation_is_decided_by_the_kind_of_unit(postgres_ledger: Ledger) -> None:
    """Writing is READ COMMITTED whatever the server's default; reading sees one state and cannot write."""
    show = sa.text(
        "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
    )
    for _ in range(2):  # the second time on connections that were used for the other kind
        with postgres_ledger.unit_of_work() as connection:
            assert tuple(connection.execute(show).one()) == ("read committed", "off")
        with postgres_ledger.reading() as connection:
            assert tuple(connection.execute(show).one()) == ("repeatable read", "on")


def test_a_reader_sees_one_state(ledger: Ledger, owner_id: str) -> None:
    """`violations` compares tables with each other: what is committed meanwhile must not be half seen."""
    with ledger.reading() as connection:
        count = sa.text("SELECT count(*) FROM host_owner")
        assert connection.scalar(count) == 1
        register(ledger)
        assert connection.scalar(count) == 1
    with ledger.reading() as connection:
        assert connection.scalar(count) == 2


def test_an_abandoned_unit_is_rolled_back_by_the_server(postgres_ledger: Ledger) -> None:
    """A worker that is frozen inside a unit holds its rows for a minute at most, less than others wait."""
    with postgres_ledger.reading() as connection:
        found = connection.execute(
            sa.text(
                "SELECT name, setting FROM pg_settings"
                " WHERE name IN ('idle_in_transaction_session_timeout', 'lock_timeout')"
            )
        )
        kept = {row.name: int(row.setting) for row in found}
    assert kept == {
        "idle_in_transaction_session_timeout": IDLE_IN_UNIT_MS,
        "lock_timeout": LOCK_WAIT_MS,
    }
    assert 0 < IDLE_IN_UNIT_MS < LOCK_WAIT_MS


def test_the_databases_clock_counts(postgres_ledger: Ledger) -> None:
    """4.4: leases are measured with the database's time; two readings of a unit differ, as time goes on."""
    with postgres_ledger.unit_of_work() as connection:
        first = system_clock(connection)
        stamp = connection.scalar(sa.text("SELECT extract(epoch FROM now()) * 1000"))
        connection.execute(sa.text("SELECT pg_sleep(0.02)"))
        second = system_clock(connection)
    assert first >= int(stamp or 0), "both are whole milliseconds"
    assert second - first >= 20


def test_an_exclusive_lock_is_one_per_name(ledger: Ledger, ledger_url: str) -> None:
    """Planning the same screening twice at once takes turns; the lock is free after an error."""
    with pytest.raises(ValueError, match="inside"), ledger.exclusive("plan x"):
        raise ValueError("inside")
    other = open_ledger(ledger_url)
    entered = threading.Event()

    def enter() -> None:
        with other.exclusive("plan x"):
            entered.set()

    with ledger.exclusive("plan x"):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.05)
    thread.join(60)
    assert entered.is_set()
    other.close()


def test_a_unit_that_raises_leaves_nothing(ledger: Ledger) -> None:
    """All or nothing, also for exceptions that are no errors of the database."""
    with pytest.raises(KeyboardInterrupt), ledger.unit_of_work() as connection:
        connection.exec_driver_sql("CREATE TABLE half (x INTEGER)")
        raise KeyboardInterrupt
    with ledger.reading() as connection:
        assert not sa.inspect(connection).has_table("half")


def test_a_reader_does_not_wait_for_a_writer(ledger: Ledger) -> None:
    """Write-ahead log: status can be read while a unit is open, and sees the state before it."""
    with ledger.unit_of_work() as writer:
        writer.exec_driver_sql("CREATE TABLE later (x INTEGER)")
        with ledger.reading() as reader:
            assert not sa.inspect(reader).has_table("later")


def test_the_file_lock_is_given_back(tmp_path: Path) -> None:
    """Whoever raises inside still releases it."""
    with pytest.raises(ValueError, match="inside"), file_lock(tmp_path / "x.db"):
        raise ValueError("inside")
    with file_lock(tmp_path / "x.db"):
        pass
