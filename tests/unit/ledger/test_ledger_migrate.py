"""Schema revisions: automatic and careful on SQLite, and the same as the models."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import migrate, queries
from orchestrator.ledger.db import Ledger, create_engine, sqlite_file
from orchestrator.ledger.errors import DatabaseUrlError, SchemaError
from orchestrator.ledger.migrate import HEAD, check, current, open_ledger, revisions, upgrade
from orchestrator.ledger.rules import missing_rules


def test_head_is_the_newest_revision_file() -> None:
    """`open_ledger` compares with a constant so that it need not import Alembic."""
    assert revisions()[0] == HEAD


def test_an_upgraded_database_equals_the_models(ledger: Ledger) -> None:
    """`alembic check` is clean, and every trigger exists after the upgrade."""
    assert check(ledger) == []
    with ledger.reading() as connection:
        assert missing_rules(connection) == []
    assert current(ledger) == HEAD


def test_the_comparison_sees_a_difference(ledger: Ledger) -> None:
    """The check above can fail: a column more in the database is reported."""
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("ALTER TABLE evidence ADD COLUMN extra INTEGER")
    assert [entry[0] for entry in check(ledger)] == ["remove_column"]


def test_upgrading_twice_changes_nothing(ledger: Ledger, ledger_url: str) -> None:
    """Safe to repeat; a ledger at HEAD is not copied."""
    screening = plan_stub(ledger, ["a"])
    assert upgrade(ledger_url) is None
    assert queries.status(ledger, screening).total == 3


def test_an_old_file_is_copied_before_its_schema_changes(
    sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy holds what was in the write-ahead log too, and stays readable by itself."""
    path = sqlite_file(sqlite_ledger.engine.url)
    assert path is not None
    screening = plan_stub(sqlite_ledger, ["a"])
    with sqlite_ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    monkeypatch.setattr(migrate, "revisions", lambda: [HEAD, "0000"])
    # There is no revision 0000 to upgrade from yet: the upgrade itself fails, the copy must exist before.
    with pytest.raises(Exception, match="0000"):
        upgrade(sqlite_ledger.engine.url)
    copies = sorted(path.parent.glob("only.db.before-upgrade-of-0000.*"))
    assert len(copies) == 1
    engine = create_engine(f"sqlite:///{copies[0]}")
    assert queries.status(Ledger(engine), screening).total == 3
    engine.dispose()


def test_a_newer_schema_is_refused_untouched(ledger: Ledger, ledger_url: str) -> None:
    """An old program must not write to a ledger it does not understand."""
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match="9999") as caught:
        open_ledger(ledger_url)
    assert caught.value.hint
    assert current(ledger) == "9999"


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    """Somebody else's tables are never mixed with ours."""
    url = f"sqlite:///{tmp_path / 'foreign.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (id INTEGER)")
    engine.dispose()
    with pytest.raises(SchemaError, match="customers"):
        open_ledger(url)


def test_postgresql_is_upgraded_only_on_command(empty_postgres_url: str) -> None:
    """Section 7: a process that finds another schema refuses, names the command and changes nothing."""
    with pytest.raises(SchemaError, match="absent") as caught:
        open_ledger(empty_postgres_url)
    assert "assize db upgrade" in (caught.value.hint or "")
    engine = create_engine(empty_postgres_url)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
    assert upgrade(empty_postgres_url) is None
    open_ledger(empty_postgres_url).close()


def test_upgrades_may_race(empty_postgres_url: str) -> None:
    """Two operators at once: one makes the schema, the other finds it."""
    failures: list[BaseException] = []

    def one() -> None:
        try:
            upgrade(empty_postgres_url)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells it
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    open_ledger(empty_postgres_url).close()


@pytest.mark.parametrize("url", ["mysql://root:secret@db/x", "nonsense secret", "oracle+x://u:secret@h"])
def test_other_databases_are_refused_without_showing_the_url(url: str) -> None:
    """A URL may hold a password: the refusal never repeats it."""
    with pytest.raises(DatabaseUrlError) as caught:
        open_ledger(url)
    assert "secret" not in caught.value.message + str(caught.value.hint)


def test_revisions_are_packaged() -> None:
    """The environment is importable package data, so a wheel can upgrade its ledger."""
    package = Path(migrate.__file__).parent / "migrations"
    for folder in (package, package / "versions"):
        assert (folder / "__init__.py").is_file()
    assert (package / "env.py").is_file()
    with pytest.raises(NotImplementedError):
        from orchestrator.ledger.migrations.versions import v0001_ledger

        v0001_ledger.downgrade()


@pytest.mark.only_on("sqlite", "a folder is made for a file")
def test_another_folder_is_made(tmp_path: Path) -> None:
    """A new ledger needs nothing prepared."""
    opened = open_ledger(f"sqlite:///{tmp_path / 'new' / 'folder' / 'ledger.db'}")
    with opened.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
    opened.close()
