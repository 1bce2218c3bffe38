"""Text is compared byte by byte on PostgreSQL too, whatever language the server speaks.

Prefixes of ids are looked up as ranges and listings are sorted by task: under a linguistic collation "~"
sorts before letters and a range finds nothing. SQLite compares bytes, and so does Python. As with the
triggers no revision has to remember it: `ensure_collation` mends every text column after each upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger.models import Base

_FOUND = """
SELECT c.table_name, c.column_name, c.character_maximum_length AS length
FROM information_schema.columns AS c
WHERE c.table_schema = current_schema() AND c.data_type = 'character varying'
  AND c.collation_name IS DISTINCT FROM 'C'
ORDER BY c.table_name, c.column_name
"""


def _linguistic(connection: Connection) -> Iterator[tuple[str, str, int | None]]:
    ours = set(Base.metadata.tables)
    for row in connection.execute(sa.text(_FOUND)):
        if row.table_name in ours:
            yield row.table_name, row.column_name, row.length


def ensure_collation(connection: Connection) -> None:
    """Give every text column of the ledger the collation C; to be called before the triggers are made."""
    if connection.dialect.name != "postgresql":
        return
    for table, column, length in list(_linguistic(connection)):
        kind = "varchar" if length is None else f"varchar({length})"
        connection.exec_driver_sql(f'ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind} COLLATE "C"')


def linguistic_columns(connection: Connection) -> list[str]:
    """`table.column` of every text column that does not compare bytes; empty on SQLite."""
    if connection.dialect.name != "postgresql":
        return []
    return [f"{table}.{column}" for table, column, _ in _linguistic(connection)]
