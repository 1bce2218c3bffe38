"""Who waits: the try that a host keeps its room for, and the screenings that were refused a place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nobody waits at first."""
    op.create_table(
        "kept_room",
        sa.Column("host_name", sa.String(length=128), nullable=False),
        sa.Column("slot_id", sa.String(length=26), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["host_name"], ["host.name"], name=op.f("fk_kept_room_host_name")),
        sa.ForeignKeyConstraint(["slot_id"], ["try_slot.id"], name=op.f("fk_kept_room_slot_id")),
        sa.PrimaryKeyConstraint("host_name", name=op.f("pk_kept_room")),
        sa.UniqueConstraint("slot_id", name=op.f("uq_kept_room_slot_id")),
    )
    op.create_table(
        "place_wait",
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_place_wait_screening_id")),
        sa.PrimaryKeyConstraint("screening_id", name=op.f("pk_place_wait")),
    )


def downgrade() -> None:
    """Not promised: a newer ledger is never taken back."""
    raise NotImplementedError("a ledger is never downgraded; restore the copy made before the upgrade")
