"""Limits over all hosts: the providers of a screening and their limits, what a slot needs of its host."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new. What was planned before names no provider and no needs, so that no limit holds it."""
    op.create_table(
        "provider_limit",
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("most >= 1", name=op.f("ck_provider_limit_most")),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_provider_limit")),
    )
    op.add_column("screening", sa.Column("providers", sa.JSON(), server_default="[]", nullable=False))
    for name in ("cpus_milli", "memory_mb"):
        op.add_column("try_slot", sa.Column(name, sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    """Not promised: a newer ledger is never taken back."""
    raise NotImplementedError("a ledger is never downgraded; restore the copy made before the upgrade")
