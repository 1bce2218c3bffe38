"""Run by Alembic: use the connection that `orchestrator.ledger.migrate` passed, or print SQL offline."""

from __future__ import annotations

from alembic import context

from orchestrator.ledger.models import Base


def _run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is None:
        url = context.config.get_main_option("sqlalchemy.url")
        context.configure(url=url, target_metadata=Base.metadata, literal_binds=True)
    else:
        # Batch mode because SQLite cannot alter most things in place.
        batch = connection.dialect.name == "sqlite"
        context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=batch)
    with context.begin_transaction():
        context.run_migrations()


_run()
