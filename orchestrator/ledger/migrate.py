"""Opening a ledger and moving its schema forward (`open_ledger` is what everybody calls).

SQLite: upgraded by itself, after a copy of the file when it holds data. PostgreSQL: only by
`upgrade(url)`, on command. Evidence and certificates are never rewritten by a revision, and a revision
never goes back. Alembic is imported only when there is something to do: it costs more than the rest of
a short command.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url

from orchestrator.ledger.collation import ensure_collation
from orchestrator.ledger.db import Clock, Ledger, create_engine, sqlite_file, system_clock
from orchestrator.ledger.errors import SchemaError
from orchestrator.ledger.models import Base
from orchestrator.ledger.roles import regrant
from orchestrator.ledger.rules import check_rules, ensure_rules

if TYPE_CHECKING:
    from alembic.config import Config

HEAD: Final = "0005"
"""The newest revision; a test compares it with the revision files."""

_VERSION_TABLE: Final = "alembic_version"
_OLDEST_POSTGRES: Final = 140_000
"""`CREATE OR REPLACE TRIGGER` came with 14."""


def open_ledger(url: str | URL, clock: Clock = system_clock) -> Ledger:
    """Open the ledger at `url`, ready for use, or raise `SchemaError` saying what to run.

    A missing SQLite file is created, an old one copied and upgraded. Every named constraint, index and
    trigger is verified to exist.
    """
    path = sqlite_file(url)
    engine = create_engine(url)
    ledger = Ledger(engine, clock)
    try:
        if path is not None and (not path.exists() or current(ledger) != HEAD):
            upgrade(url)
        found = current(ledger)
        if found != HEAD:
            raise SchemaError(
                f"the ledger's schema is {found or 'absent'}, this version needs {HEAD}",
                hint="run `assize db upgrade` with this version of Assize",
            )
        with ledger.reading() as connection:
            check_rules(connection)
    except BaseException:
        ledger.close()
        raise
    return ledger


def current(ledger: Ledger) -> str | None:
    """The revision of the database, None when it has no schema."""
    with ledger.reading() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION_TABLE):
        return None
    found = connection.scalar(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return None if found is None else str(found)


def upgrade(url: str | URL) -> Path | None:
    """Bring the database at `url` to `HEAD` and (re)create its rules; safe to repeat and to race.

    Returns the copy made of a non-empty SQLite file before its schema was changed, else None. A schema
    newer than this version is refused, untouched.
    """
    ledger = Ledger(create_engine(url))
    try:
        with ledger.exclusive("schema"):
            return _upgrade(ledger)
    finally:
        ledger.close()


def _upgrade(ledger: Ledger) -> Path | None:
    from alembic import command

    path = sqlite_file(ledger.engine.url)
    existed = path is not None and path.exists() and path.stat().st_size > 0
    _refuse_old_server(ledger)
    found = current(ledger)
    if found is not None and found not in revisions():
        raise SchemaError(
            f"the ledger's schema {found} is not known to this version (newest: {HEAD})",
            hint="use the version of Assize that wrote it, or a newer one",
        )
    copy = None
    if path is not None and existed and found not in (None, HEAD):
        copy = copy_sqlite(path, _free_name(path, f"before-upgrade-of-{found}"))
    _refuse_foreign(ledger, found)
    with ledger.unit_of_work() as connection:
        config = _config(ledger.engine.url)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        ensure_collation(connection)
        ensure_rules(connection)
        check_rules(connection)
        regrant(connection)
    return copy


def _refuse_old_server(ledger: Ledger) -> None:
    if ledger.engine.dialect.name != "postgresql":
        return
    with ledger.reading() as connection:
        version = int(connection.scalar(sa.text("SHOW server_version_num")) or 0)
    if version < _OLDEST_POSTGRES:
        raise SchemaError(
            f"the server is PostgreSQL {version // 10_000}; {_OLDEST_POSTGRES // 10_000} or later is needed"
        )


def _refuse_foreign(ledger: Ledger, found: str | None) -> None:
    """A database with tables but without our version table belongs to somebody else."""
    if found is not None:
        return
    with ledger.reading() as connection:
        tables = sorted(set(sa.inspect(connection).get_table_names()) - {_VERSION_TABLE})
    if tables:
        raise SchemaError(
            f"the database holds foreign tables ({', '.join(tables[:5])})",
            hint="give Assize a database of its own",
        )


def _free_name(path: Path, what: str) -> Path:
    number = 0
    while (target := path.with_name(f"{path.name}.{what}.{number}")).exists():
        number += 1
    return target


def copy_sqlite(path: Path, target: Path) -> Path:
    """Copy the database `path` to the new file `target` while others use it; returns `target`."""
    # The backup API copies what is in the write-ahead log too; copying the file would not.
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as sink:
        source.backup(sink)
    return target


def _config(url: str | URL) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "orchestrator.ledger:migrations")
    config.set_main_option("path_separator", "os")
    config.set_main_option(
        "sqlalchemy.url", make_url(url).render_as_string(hide_password=True).replace("%", "%%")
    )
    return config


def revisions() -> list[str]:
    """Every revision this version knows, newest first."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(_config("sqlite://"))
    return [revision.revision for revision in script.walk_revisions()]


def check(ledger: Ledger) -> list[Any]:
    """How the database differs from the models (Alembic's comparison); empty when it does not."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with ledger.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, Base.metadata))
