"""Providers: which ones a screening's models are at, and how many tries may use one at a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; a screening that was planned before names no provider, so that no limit holds it."""
    op.create_table(
        "provider_limit",
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("most >= 1", name=op.f("ck_provider_limit_most")),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_provider_limit")),
    )
    op.add_column("screening", sa.Column("providers", sa.JSON(), server_default="[]", nullable=False))


def downgrade() -> None:
    """Not promised: a newer ledger is never taken back."""
    raise NotImplementedError("a ledger is never downgraded; restore the copy made before the upgrade")
