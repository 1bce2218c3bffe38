"""Many hosts: workers and their hosts, the queue of a slot, the engine and share of a screening."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _host() -> None:
    op.create_table(
        "host",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_host")),
    )


def _worker() -> None:
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("role", sa.String(length=40), nullable=False),
        sa.Column("host_name", sa.String(length=128), nullable=False),
        sa.Column("machine", sa.String(length=128), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("pid_namespace", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("pid_started", sa.String(length=32), nullable=False),
        sa.Column("hardware_class", sa.String(length=128), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("queues", sa.JSON(), nullable=False),
        sa.Column("children", sa.Integer(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("beaten_ms", sa.BigInteger(), nullable=False),
        sa.Column("swept_ms", sa.BigInteger(), nullable=True),
        sa.Column("reaped_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("role IN ('worker', 'dispatcher')", name=op.f("ck_worker_role")),
        sa.CheckConstraint("slots >= 0 AND children >= 0 AND refused >= 0", name=op.f("ck_worker_numbers")),
        sa.ForeignKeyConstraint(["host_name"], ["host.name"], name=op.f("fk_worker_host_name")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )


def upgrade() -> None:
    """Add what is new; columns are added in place, so no table is rebuilt and no trigger lost."""
    _host()
    _worker()
    op.add_column("host_owner", sa.Column("worker_id", sa.String(length=26), nullable=True))
    op.add_column(
        "screening", sa.Column("engine", sa.String(length=40), server_default="local", nullable=False)
    )
    op.add_column("screening", sa.Column("share", sa.Integer(), server_default="1", nullable=False))
    op.add_column("try_slot", sa.Column("queue", sa.String(length=128), server_default="", nullable=False))
    op.create_index(
        "ix_try_slot_queued",
        "try_slot",
        ["queue", "sent_ms"],
        unique=False,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )


def downgrade() -> None:
    """Not promised: a newer ledger is never taken back."""
    raise NotImplementedError("a ledger is never downgraded; restore the copy made before the upgrade")
