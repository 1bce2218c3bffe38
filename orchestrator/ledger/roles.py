"""The database role of workers (PostgreSQL): what a worker does is granted, everything else is not.

A worker host runs strangers' code. Whoever takes it over must not be able to write a certificate, to change
an ended try, to rewrite the history or to switch a trigger off. The triggers hold against everybody; a role
that is no owner cannot remove them, and the grants below are by column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Base


@dataclass(frozen=True)
class Rights:
    """What a worker may do to a table besides reading it; `update` names columns."""

    insert: bool = False
    update: tuple[str, ...] = ()
    delete: bool = False


_READ: Final = Rights()
_ADD: Final = Rights(insert=True)

WORKER: Final[dict[str, Rights]] = {
    # A worker may say that its host is there, and not whether it is draining.
    "host": _ADD,
    "worker": Rights(True, ("beaten_ms", "children", "swept_ms", "reaped_ms", "refused", "ended_ms")),
    "host_owner": Rights(True, ("beaten_ms", "ended_ms")),
    "screening": Rights(False, ("used_nusd", "reserved_nusd", "state", "stop_reason", "closed_ms")),
    "try_slot": Rights(
        False,
        (
            *("state", "generation", "token", "reruns", "interruptions", "reserved_nusd"),
            *("outcome", "reason", "not_before_ms", "sent_ms", "updated_ms"),
        ),
    ),
    "attempt": Rights(
        True,
        (
            *("state", "phase", "lease_until_ms", "ended_ms", "outcome", "reason", "rule", "suspect"),
            *("reward", "checks_passed", "checks_total", "wall_ms", "handed_off_ms", "finished_ms"),
            *("runtime", "details"),
        ),
    ),
    "evidence": _ADD,
    "subnet_lease": Rights(insert=True, delete=True),
    "spend_entry": _ADD,
    "event": _ADD,
    "certificate": _READ,
    "pack_check": _READ,
    "provider_limit": _READ,
    "kept_room": Rights(insert=True, update=("until_ms",), delete=True),
    "place_wait": Rights(insert=True, update=("until_ms",), delete=True),
}
"""Every table of the ledger, by name; a test fails when a table is missing here."""


def grant_worker(ledger: Ledger, role: str, *, password: str | None = None) -> bool:
    """Give `role` exactly the rights of a worker; True if it had to be created, which needs a password.

    Safe to repeat; `upgrade` repeats it for every such role. Errors: `UsageError` on SQLite, for a role that
    owns the ledger or is a superuser (it could not be limited), and for a new role without a password.
    """
    if ledger.engine.dialect.name != "postgresql":
        raise UsageError(
            "an SQLite ledger has no roles", hint="whoever can write the file can write all of it"
        )
    with ledger.unit_of_work() as connection:
        created = _ensure_role(connection, role, password)
        _refuse_mighty(connection, role)
        _grant(connection, role)
        _refuse_builder(connection, role)
    return created


def worker_roles(connection: Connection) -> list[str]:
    """Roles that hold a worker's grants; none on SQLite."""
    if connection.dialect.name != "postgresql":
        return []
    query = (
        "SELECT DISTINCT r.rolname FROM pg_class AS c, aclexplode(c.relacl) AS a"
        " JOIN pg_roles AS r ON r.oid = a.grantee"
        " WHERE c.oid = to_regclass('attempt') AND a.privilege_type = 'INSERT' AND r.oid <> c.relowner"
    )
    return sorted(connection.scalars(sa.text(query)))


def regrant(connection: Connection) -> None:
    """After an upgrade: the roles of workers get their rights on what is new."""
    for role in worker_roles(connection):
        _grant(connection, role)


def _ensure_role(connection: Connection, role: str, password: str | None) -> bool:
    if connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}):
        return False
    if not password:
        raise NotFoundError(
            f"there is no role {role}", hint="create it first, or name its password with --password-file"
        )
    session: Any = connection.connection.driver_connection
    # Only the verifier goes to the server: a plain password would stand in its log of statements.
    verifier = session.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    _say(connection, f"CREATE ROLE {_quoted(role)} LOGIN PASSWORD '{verifier}'")
    return True


def _refuse_mighty(connection: Connection, role: str) -> None:
    query = (
        "SELECT rolsuper OR rolcreaterole OR rolbypassrls OR pg_has_role(rolname, c.relowner, 'MEMBER')"
        " FROM pg_roles, pg_class AS c WHERE rolname = :role AND c.oid = to_regclass('attempt')"
    )
    if connection.scalar(sa.text(query), {"role": role}):
        raise UsageError(
            f"role {role} owns the ledger or governs the server: nothing would hold it back",
            hint="name a role of its own for workers",
        )


def _refuse_builder(connection: Connection, role: str) -> None:
    """Where the schema belongs to somebody else (PostgreSQL 14), this role could not take CREATE away."""
    query = "SELECT has_schema_privilege(:role, current_schema(), 'CREATE')"
    if connection.scalar(sa.text(query), {"role": role}):
        raise UsageError(
            f"role {role} may still create objects in the schema",
            hint="as the server's administrator: REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        )


def _grant(connection: Connection, role: str) -> None:
    name = _quoted(role)
    schema = _quoted(str(connection.scalar(sa.text("SELECT current_schema()"))))
    database = _quoted(str(connection.scalar(sa.text("SELECT current_database()"))))
    for taken in ("PUBLIC", name):
        _say(connection, f"REVOKE CREATE ON SCHEMA {schema} FROM {taken}")
        _say(connection, f"REVOKE CREATE, TEMPORARY ON DATABASE {database} FROM {taken}")
    _say(connection, f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {name}")
    _say(connection, f"GRANT CONNECT ON DATABASE {database} TO {name}")
    _say(connection, f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    _say(connection, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
    _say(connection, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name}")
    for table in Base.metadata.sorted_tables:
        rights = WORKER.get(table.name, _READ)
        if rights.insert:
            _say(connection, f"GRANT INSERT ON {table.name} TO {name}")
        if rights.delete:
            _say(connection, f"GRANT DELETE ON {table.name} TO {name}")
        if rights.update:
            _say(connection, f"GRANT UPDATE ({', '.join(rights.update)}) ON {table.name} TO {name}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _say(connection: Connection, statement: str) -> None:
    # By the driver itself: it looks for no placeholders in a statement that comes without parameters.
    session: Any = connection.connection.driver_connection
    session.execute(statement)
