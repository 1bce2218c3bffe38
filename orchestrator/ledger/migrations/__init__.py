"""Alembic environment of the ledger; packaged, run by `orchestrator.ledger.migrate` only."""
