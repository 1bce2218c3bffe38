"""Rules that the database itself keeps, as triggers, and the check that none of them is missing.

Alembic's batch mode on SQLite rebuilds a table and silently loses its triggers (measured,
reference/distribution.md section 7). So the triggers are no part of any revision: `ensure_rules` creates
them after every upgrade, and `missing_rules` names what is not there. A superuser, or a person with an
editor and the file, can still get past them; the signed and logged certificates are what shows that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ledger.collation import linguistic_columns
from orchestrator.ledger.errors import SchemaError
from orchestrator.ledger.models import Base
from orchestrator.ledger.states import CLOSED_SCREENINGS, ENDED_SLOTS

_FUNCTION: Final = "assize_refuse"
_BODY: Final = (
    " BEGIN RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation'; END "
)


def _words(values: frozenset[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


@dataclass(frozen=True)
class Rule:
    """A trigger that refuses `operation` on `table` when `condition` holds (always, if None)."""

    name: str
    table: str
    operation: str
    message: str
    condition: str | None = None

    def sqlite(self) -> str:
        """The statement as SQLite stores it in `sqlite_master`."""
        when = f" WHEN {self.condition}" if self.condition else ""
        return (
            f"CREATE TRIGGER {self.name} BEFORE {self.operation} ON {self.table} FOR EACH ROW{when}"
            f" BEGIN SELECT RAISE(ABORT, '{self.message}'); END"
        )

    def postgresql(self) -> str:
        """The statement for PostgreSQL 14 or later; its digest is kept as the comment of the trigger."""
        when = f" WHEN ({self.condition})" if self.condition else ""
        each = "STATEMENT" if self.operation == "TRUNCATE" else "ROW"
        return (
            f"CREATE OR REPLACE TRIGGER {self.name} BEFORE {self.operation} ON {self.table}"
            f" FOR EACH {each}{when} EXECUTE FUNCTION {_FUNCTION}('{self.message}')"
        )


def _digest(statement: str) -> str:
    return hashlib.sha256(statement.encode()).hexdigest()


def _append_only(table: str) -> Iterator[Rule]:
    for operation in ("UPDATE", "DELETE"):
        name = f"tr_{table}_no_{operation.lower()}"
        yield Rule(name, table, operation, f"{table} rows are append-only")


_KEPT: Final = (
    Rule(
        "tr_try_slot_ended",
        "try_slot",
        "UPDATE",
        "an ended slot never changes",
        f"OLD.state IN ({_words(ENDED_SLOTS)})",
    ),
    Rule("tr_try_slot_token", "try_slot", "UPDATE", "a token only grows", "NEW.token < OLD.token"),
    Rule(
        "tr_try_slot_identity",
        "try_slot",
        "UPDATE",
        "a slot keeps its screening, task and index",
        "NEW.id <> OLD.id OR NEW.screening_id <> OLD.screening_id OR NEW.task_id <> OLD.task_id"
        " OR NEW.k <> OLD.k OR NEW.start_order <> OLD.start_order",
    ),
    Rule("tr_try_slot_no_delete", "try_slot", "DELETE", "slots are never deleted"),
    Rule("tr_attempt_ended", "attempt", "UPDATE", "an ended attempt never changes", "OLD.state <> 'live'"),
    Rule(
        "tr_attempt_identity",
        "attempt",
        "UPDATE",
        "an attempt keeps its slot and token",
        "NEW.id <> OLD.id OR NEW.slot_id <> OLD.slot_id OR NEW.token <> OLD.token"
        " OR NEW.number <> OLD.number",
    ),
    Rule("tr_attempt_no_delete", "attempt", "DELETE", "attempts are never deleted"),
    Rule(
        "tr_screening_closed",
        "screening",
        "UPDATE",
        "a closed screening never changes",
        f"OLD.state IN ({_words(CLOSED_SCREENINGS)})",
    ),
    Rule(
        "tr_screening_identity",
        "screening",
        "UPDATE",
        "a screening keeps what it was planned as",
        "NEW.id <> OLD.id OR NEW.identity <> OLD.identity OR NEW.pack_digest <> OLD.pack_digest"
        " OR NEW.agent_digest <> OLD.agent_digest OR NEW.comparability <> OLD.comparability"
        " OR NEW.requester <> OLD.requester OR NEW.funder <> OLD.funder"
        " OR NEW.planned_slots <> OLD.planned_slots OR NEW.rerun_limit <> OLD.rerun_limit"
        # The visibility is among them: what was private stays private.
        " OR CAST(NEW.conditions AS TEXT) <> CAST(OLD.conditions AS TEXT)",
    ),
    Rule("tr_screening_no_delete", "screening", "DELETE", "screenings are never deleted"),
)

_APPEND_ONLY: Final = ("event", "certificate", "evidence", "spend_entry", "pack_check")

RULES: Final[tuple[Rule, ...]] = (*(rule for table in _APPEND_ONLY for rule in _append_only(table)), *_KEPT)
"""The rules of every database."""

POSTGRES_RULES: Final[tuple[Rule, ...]] = tuple(
    Rule(f"tr_{table}_no_truncate", table, "TRUNCATE", f"{table} rows are never deleted")
    for table in (*_APPEND_ONLY, "try_slot", "attempt", "screening")
)
"""TRUNCATE, which only PostgreSQL has, fires no trigger of rows."""


def rules_of(connection: Connection) -> tuple[Rule, ...]:
    """Every rule that this database keeps."""
    return RULES + POSTGRES_RULES if connection.dialect.name == "postgresql" else RULES


def ensure_rules(connection: Connection) -> None:
    """Create every trigger that is absent or differs; safe to run any number of times."""
    if connection.dialect.name == "postgresql":
        _ensure_postgresql(connection)
        return
    present = _sqlite_triggers(connection)
    for rule in RULES:
        if present.get(rule.name) == rule.sqlite():
            continue
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {rule.name}")
        connection.exec_driver_sql(rule.sqlite())


def _ensure_postgresql(connection: Connection) -> None:
    # Replacing a trigger locks its table against everybody: only what differs is made anew.
    connection.exec_driver_sql(
        f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $${_BODY}$$"
    )
    present = _postgresql_triggers(connection)
    for rule in rules_of(connection):
        digest = _digest(rule.postgresql())
        if present.get(rule.name) == digest:
            continue
        connection.exec_driver_sql(rule.postgresql())
        connection.exec_driver_sql(f"ALTER TABLE {rule.table} ENABLE TRIGGER {rule.name}")
        connection.exec_driver_sql(f"COMMENT ON TRIGGER {rule.name} ON {rule.table} IS '{digest}'")


def _postgresql_triggers(connection: Connection) -> dict[str, str]:
    """Name -> digest of its statement, for every trigger of ours that fires and calls our function."""
    query = (
        "SELECT t.tgname AS name, obj_description(t.oid, 'pg_trigger') AS digest"
        " FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid"
        " JOIN pg_proc AS p ON p.oid = t.tgfoid"
        " WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND p.prosrc = :body"
        " AND c.relnamespace = current_schema()::regnamespace"
    )
    rows = connection.execute(sa.text(query), {"body": _BODY})
    return {str(row.name): str(row.digest) for row in rows}


def _sqlite_triggers(connection: Connection) -> dict[str, str]:
    rows = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    return {str(row.name): str(row.sql) for row in rows}


def missing_rules(connection: Connection) -> list[str]:
    """Every named table, constraint, index and trigger that the schema needs and the database lacks.

    Each entry reads `<kind> <name> on <table>`. A trigger whose text differs or that is switched off counts
    as missing, and so does the byte order of a text column on PostgreSQL.
    """
    present = _sqlite_names if connection.dialect.name == "sqlite" else _postgresql_names
    names = present(connection)
    missing = [
        f"{kind} {name} on {table}"
        for kind, name, table in _expected(connection)
        if (kind, name) not in names
    ]
    return missing + [f"collation C on {column}" for column in linguistic_columns(connection)]


def check_rules(connection: Connection) -> None:
    """Raise `SchemaError` that lists everything `missing_rules` finds."""
    if missing := missing_rules(connection):
        raise SchemaError(
            f"the ledger has lost {len(missing)} of its rules: {', '.join(missing)}",
            hint="restore the last backup of the database; a ledger without its rules is not written to",
        )


def _expected(connection: Connection) -> Iterator[tuple[str, str, str]]:
    for table in Base.metadata.sorted_tables:
        yield "table", table.name, table.name
        for constraint in table.constraints:
            yield "constraint", str(constraint.name), table.name
        for index in table.indexes:
            yield "index", str(index.name), table.name
    for rule in rules_of(connection):
        yield "trigger", rule.name, rule.table


def _sqlite_names(connection: Connection) -> set[tuple[str, str]]:
    names: set[tuple[str, str]] = set()
    for kind, name, sql in connection.execute(sa.text("SELECT type, name, sql FROM sqlite_master")):
        if kind == "trigger":
            names |= {("trigger", rule.name) for rule in RULES if rule.name == name and rule.sqlite() == sql}
            continue
        names.add((kind, name))
        words = (sql or "").split()
        names |= {
            ("constraint", words[at + 1].strip('"'))
            for at, word in enumerate(words[:-1])
            if word == "CONSTRAINT"
        }
    return names


def _postgresql_names(connection: Connection) -> set[tuple[str, str]]:
    queries = {
        "table": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
        "index": "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()",
        "constraint": "SELECT conname FROM pg_constraint WHERE connamespace = current_schema()::regnamespace",
    }
    names = {(kind, name) for kind, query in queries.items() for name in connection.scalars(sa.text(query))}
    digests = _postgresql_triggers(connection)
    return names | {
        ("trigger", rule.name)
        for rule in rules_of(connection)
        if digests.get(rule.name) == _digest(rule.postgresql())
    }
