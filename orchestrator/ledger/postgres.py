"""What a connection to PostgreSQL is asked for, and locks that belong to no table.

Every wait has an end: a process that is frozen or cut off in the middle of a unit must not hold its rows for
ever (its session is ended, its unit rolled back), and a dead network is noticed in half a minute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

CONNECT_S: Final = 10
IDLE_IN_UNIT_MS: Final = 60_000
"""How long a session may sit inside an open unit before the server ends it."""
LOCK_WAIT_MS: Final = 90_000
"""How long a statement waits for a row: longer than an abandoned unit can live."""
_DEAD_NETWORK_MS: Final = 30_000
_SETTINGS: Final = (
    f"-c idle_in_transaction_session_timeout={IDLE_IN_UNIT_MS} -c lock_timeout={LOCK_WAIT_MS}"
    " -c standard_conforming_strings=on"
)


def engine_options(url: URL) -> dict[str, Any]:
    """Arguments of `create_engine` for a PostgreSQL URL; `options` of the URL itself come last and win."""
    own = url.query.get("options", "")
    more = own if isinstance(own, str) else " ".join(own)
    return {
        "isolation_level": "READ COMMITTED",
        # A connection that the server dropped (restart, outage) is replaced before a unit begins on it.
        "pool_pre_ping": True,
        "pool_use_lifo": True,
        "max_overflow": 20,
        "connect_args": {
            "connect_timeout": CONNECT_S,
            "application_name": "assize",
            "options": f"{_SETTINGS} {more}".strip(),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": _DEAD_NETWORK_MS,
        },
    }


def hold_until_end(connection: Connection, what: str) -> None:
    """Hold the lock `what` until the unit of `connection` ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_number(what))))


def _number(what: str) -> int:
    """The number of an advisory lock, 64 bits signed, from its name."""
    return int.from_bytes(hashlib.sha256(f"assize {what}".encode()).digest()[:8], "big", signed=True)


@contextmanager
def advisory_lock(engine: Engine, what: str) -> Iterator[None]:
    """Hold the lock `what` of this database; the server releases it when this process or its host dies."""
    pooled = engine.raw_connection()
    session: Any = pooled.driver_connection
    # Detached: it is closed at the end and not given back, whatever state it is in.
    pooled.detach()
    try:
        session.rollback()
        session.autocommit = True
        session.execute("SET lock_timeout = 0")
        session.execute("SELECT pg_advisory_lock(%s)", (_number(what),))
        yield
    finally:
        session.close()
