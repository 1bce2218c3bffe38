"""Connections and units of work, on SQLite and PostgreSQL alike.

A write unit on SQLite begins with `BEGIN IMMEDIATE`: a transaction that reads first and writes later
fails at once under the default deferred BEGIN when another writer got in between (1,500 of 2,000
measured, reference/distribution.md section 7), and busy_timeout is not consulted. Read units are plain.

On PostgreSQL a write unit is READ COMMITTED: every transition is a conditional UPDATE or locks the row it
decides about. A read unit is REPEATABLE READ and read-only, so that it sees one state of the ledger.
"""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url

from orchestrator.ledger import postgres
from orchestrator.ledger.errors import DatabaseUrlError

BUSY_TIMEOUT_MS: Final = 30_000
_MODE: Final = "assize_begin"
_PRAGMAS: Final = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    # Without it INSERT OR REPLACE deletes rows past the append-only triggers.
    "PRAGMA recursive_triggers = ON",
)

Clock = Callable[[Connection], int]
"""Unix milliseconds as the database sees them; every lease is measured with it."""


def _to_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse_url(url: str | URL) -> URL:
    """The URL of an SQLite or PostgreSQL database; `DatabaseUrlError`, which never shows the URL, otherwise.

    `postgresql://` and `postgres://` mean psycopg, the one driver that is installed.
    """
    try:
        parsed = make_url(url)
    except sa.exc.ArgumentError:
        raise DatabaseUrlError("the database URL cannot be read") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise DatabaseUrlError(f"{parsed.drivername} is no database that a ledger can be kept in")
    return parsed


def sqlite_file(url: str | URL) -> Path | None:
    """The file behind an SQLite URL; None for memory and for other databases."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database).absolute()


def create_engine(url: str | URL) -> Engine:
    """An engine whose connections keep the rules above; threads may use it, forked children may not."""
    parsed = parse_url(url)
    options: dict[str, Any] = {"json_serializer": _to_json}
    if parsed.get_backend_name() == "postgresql":
        options |= postgres.engine_options(parsed)
    if parsed.get_backend_name() == "sqlite" and sqlite_file(parsed) is not None:
        options |= {"poolclass": sa.pool.QueuePool, "pool_size": 0}
        options["connect_args"] = {"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
    engine = sa.create_engine(parsed, **options)
    if engine.dialect.name == "sqlite":
        _install_sqlite(engine)
    return engine


def _install_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connect(dbapi_connection: Any, _record: object) -> None:
        # The driver must not open transactions of its own: BEGIN below is the only one.
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get(_MODE, "BEGIN")
        connection.exec_driver_sql(mode)


def system_clock(connection: Connection) -> int:
    """Now in Unix milliseconds: the database's own time where hosts may differ, else this host's."""
    if connection.dialect.name == "postgresql":
        stamp = connection.scalar(
            sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")
        )
        return int(stamp or 0)
    return time.time_ns() // 1_000_000


class Ledger:
    """A database with the ledger's schema, and its clock."""

    def __init__(self, engine: Engine, clock: Clock = system_clock) -> None:
        self.engine = engine
        self.clock = clock
        self._writer = engine.execution_options(**{_MODE: "BEGIN IMMEDIATE"})
        self._reader = engine
        if engine.dialect.name == "postgresql":
            self._reader = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        # SQLite has one writer; its busy handler sleeps. Threads of this process take turns without that.
        self._turn: AbstractContextManager[Any] = (
            threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()
        )

    @property
    def url(self) -> str:
        """The database URL, password hidden."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def unit_of_work(self) -> Iterator[Connection]:
        """One short write transaction: commits at the end, rolls back on any exception."""
        with self._turn, self._writer.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One read transaction: a consistent snapshot, never a lock that a writer waits for."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def exclusive(self, what: str = "") -> Iterator[None]:
        """Hold the lock `what` of this database (planning, takeover and schema changes only).

        SQLite has one for everything, a file beside the database. On PostgreSQL it is an advisory lock: the
        conditional updates are safe without it, it spares processes from doing the same work twice.
        """
        path = sqlite_file(self.engine.url)
        if path is not None:
            with file_lock(path):
                yield
        elif self.engine.dialect.name == "postgresql":
            with postgres.advisory_lock(self.engine, what):
                yield
        else:
            yield

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


@contextmanager
def file_lock(database: Path) -> Iterator[None]:
    """Hold `<database>.lock` exclusively; released by the kernel when the process dies."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(database.with_name(database.name + ".lock"), "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
