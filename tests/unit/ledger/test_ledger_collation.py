"""Text compares as bytes on both databases, also where the server's own collation is a language."""

from __future__ import annotations

import psycopg.sql
import sqlalchemy as sa

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.collation import ensure_collation, linguistic_columns
from orchestrator.ledger.db import Ledger
from tests.assets.services.postgres import PostgresServer

ODD = ["B-1", "a_2", "a-1", "a.1", "a~", "Z", "_x", "10", "9", "aa"]


def test_the_tests_server_sorts_like_a_language(postgres_server: PostgresServer) -> None:
    """Otherwise the tests below would prove nothing: here "~" comes before letters."""
    assert postgres_server.execute(psycopg.sql.SQL("SELECT '~' < 'a'")) == [(True,)]


def test_listings_sort_as_python_does(ledger: Ledger) -> None:
    """The same screening is listed in the same order, whichever database it is kept in."""
    screening = plan_stub(ledger, ODD, tries=1)
    assert [view.row["task_id"] for view in queries.tries(ledger, screening)] == sorted(ODD)


def test_every_text_column_compares_bytes(ledger: Ledger) -> None:
    with ledger.reading() as connection:
        assert linguistic_columns(connection) == []


def test_a_new_column_is_mended_after_an_upgrade(ledger: Ledger) -> None:
    """A revision need not think of it: what it adds is brought in line before the triggers are made."""
    with ledger.unit_of_work() as connection:
        connection.execute(sa.text("ALTER TABLE evidence ADD COLUMN place VARCHAR(40)"))
        found = linguistic_columns(connection)
        assert found == (["evidence.place"] if connection.dialect.name == "postgresql" else [])
        ensure_collation(connection)
        assert linguistic_columns(connection) == []
