"""Moving a ledger to another database, from a laptop's SQLite file to PostgreSQL and back.

All tables in the order of their foreign keys, in one unit of the target; the source stands still meanwhile.
What was written is read back and compared row by row, and all invariants are asked on both sides. The source
is left as it is: it must not be used any more, or there would be two ledgers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.backups.errors import BackupError, TargetError
from orchestrator.errors import UsageError
from orchestrator.ledger import invariants
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Base
from orchestrator.ledger.queries import live_attempts

_BATCH_ROWS: Final = 500


@dataclass(frozen=True)
class Moved:
    """Rows by table, in the order in which they were written."""

    counts: dict[str, int]


def copy(source: Ledger, target: Ledger, say: Callable[[str], None] = lambda _line: None) -> Moved:
    """Copy every row of `source` into the empty `target`; both have the schema of this version.

    Errors: `UsageError` while attempts are running, `TargetError` for a target with rows, `BackupError` when
    what was read back differs (the target is rolled back then).
    """
    if running := live_attempts(source):
        raise UsageError(
            f"{len(running)} attempts are running or were left by a process that died",
            hint="let them end, or run the same `assize screen` once more: it takes them over",
        )
    _refuse_rows(target)
    counts: dict[str, int] = {}
    # A write unit keeps writers of SQLite out; on PostgreSQL the reader's snapshot is one state anyway.
    reading = source.unit_of_work if source.engine.dialect.name == "sqlite" else source.reading
    with reading() as origin, target.unit_of_work() as sink:
        for table in Base.metadata.sorted_tables:
            sent = _copy_table(origin, sink, table)
            if sent != _fingerprint(sink, table):
                raise BackupError(f"{table.name} read back differs from what was written; nothing was kept")
            counts[table.name] = sent[0]
            say(f"{table.name}: {sent[0]} rows")
        _advance(sink)
    before, after = invariants.violations(source), invariants.violations(target)
    if [(one.number, one.message) for one in before] != [(one.number, one.message) for one in after]:
        raise BackupError("the invariants of the copy differ from those of the source; do not use the copy")
    return Moved(counts)


def _refuse_rows(target: Ledger) -> None:
    with target.reading() as connection:
        for table in Base.metadata.sorted_tables:
            if connection.execute(sa.select(table).limit(1)).first() is not None:
                raise TargetError(
                    f"the target holds rows already (table {table.name})", hint="name an empty database"
                )


def _parts(connection: Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows in the order of their keys, some hundred at a time."""
    query = sa.select(table).order_by(*table.primary_key.columns)
    result = connection.execute(query.execution_options(yield_per=_BATCH_ROWS))
    for part in result.partitions():
        yield [dict(row._mapping) for row in part]


def _copy_table(origin: Connection, sink: Connection, table: sa.Table) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for rows in _parts(origin, table):
        count += len(rows)
        for row in rows:
            digest.update(_line(row))
        sink.execute(sa.insert(table), rows)
    return count, digest.hexdigest()


def _fingerprint(connection: Connection, table: sa.Table) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for rows in _parts(connection, table):
        count += len(rows)
        for row in rows:
            digest.update(_line(row))
    return count, digest.hexdigest()


def _line(row: dict[str, Any]) -> bytes:
    """One row in one spelling: columns and JSON keys sorted, bytes as hex."""
    text = json.dumps(row, sort_keys=True, default=lambda value: bytes(value).hex(), ensure_ascii=True)
    return text.encode() + b"\n"


def _advance(sink: Connection) -> None:
    """The history goes on after the last copied number (SQLite looks for itself)."""
    if sink.dialect.name == "postgresql":
        sink.execute(
            sa.text(
                "SELECT setval(pg_get_serial_sequence('event', 'id'), max(id)) FROM event HAVING max(id) > 0"
            )
        )
