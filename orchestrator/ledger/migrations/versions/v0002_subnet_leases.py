"""Leases of subnets for the pods of tasks with several containers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One table more; nothing that is there is touched."""
    op.create_table(
        "subnet_lease",
        sa.Column("subnet", sa.String(length=18), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("taken_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["host_owner.id"], name=op.f("fk_subnet_lease_owner_id")),
        sa.PrimaryKeyConstraint("subnet", name=op.f("pk_subnet_lease")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_subnet_lease_attempt_id")),
    )


def downgrade() -> None:
    """Refuse: a ledger is append-only, restore a copy instead."""
    raise NotImplementedError("the ledger never goes back to an older schema")
