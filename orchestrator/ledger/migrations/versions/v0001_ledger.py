"""The ledger as of version 0.1: screenings, slots, attempts, evidence, certificates, spend, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _host_owner() -> None:
    op.create_table(
        "host_owner",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("host", sa.String(length=128), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("pid_namespace", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("pid_started", sa.String(length=32), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("beaten_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_owner")),
    )


def _pack_check() -> None:
    op.create_table(
        "pack_check",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("pack_digest", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=200), nullable=False),
        sa.Column("task_digest", sa.String(length=64), nullable=False),
        sa.Column("agent_image", sa.String(length=80), nullable=False),
        sa.Column("grader_image", sa.String(length=80), nullable=False),
        sa.Column("oracle_runs", sa.Integer(), nullable=False),
        sa.Column("oracle_passes", sa.Integer(), nullable=False),
        sa.Column("nop_runs", sa.Integer(), nullable=False),
        sa.Column("nop_fails", sa.Integer(), nullable=False),
        sa.Column("stable", sa.Boolean(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "oracle_passes BETWEEN 0 AND oracle_runs AND nop_fails BETWEEN 0 AND nop_runs",
            name=op.f("ck_pack_check_counts"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pack_check")),
    )
    op.create_index(
        "ix_pack_check_subject", "pack_check", ["task_digest", "agent_image", "grader_image"], unique=False
    )


def _screening() -> None:
    op.create_table(
        "screening",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("pack_id", sa.String(length=128), nullable=False),
        sa.Column("pack_version", sa.String(length=64), nullable=False),
        sa.Column("pack_digest", sa.String(length=64), nullable=False),
        sa.Column("agent_id", sa.String(length=128), nullable=False),
        sa.Column("agent_version", sa.String(length=64), nullable=False),
        sa.Column("agent_digest", sa.String(length=64), nullable=False),
        sa.Column("conditions", sa.JSON(), nullable=False),
        sa.Column("comparability", sa.String(length=64), nullable=False),
        sa.Column("requester", sa.String(length=128), nullable=False),
        sa.Column("funder", sa.String(length=128), nullable=False),
        sa.Column("seed", sa.String(length=64), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=False),
        sa.Column("planned_slots", sa.Integer(), nullable=False),
        sa.Column("rerun_limit", sa.Integer(), nullable=False),
        sa.Column("try_cap_nusd", sa.BigInteger(), nullable=False),
        sa.Column("cap_nusd", sa.BigInteger(), nullable=True),
        sa.Column("used_nusd", sa.BigInteger(), nullable=False),
        sa.Column("reserved_nusd", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=40), nullable=False),
        sa.Column("stop_reason", sa.String(length=40), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            (
                "state IN ('planned', 'running', 'paused', 'complete', 'partial', "
                "'cancelled', 'cap_stopped', 'not_evaluable')"
            ),
            name=op.f("ck_screening_state"),
        ),
        sa.CheckConstraint(
            "cap_nusd IS NULL OR used_nusd + reserved_nusd <= cap_nusd", name=op.f("ck_screening_cap")
        ),
        sa.CheckConstraint(
            "used_nusd >= 0 AND reserved_nusd >= 0 AND try_cap_nusd >= 0", name=op.f("ck_screening_money")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_screening")),
    )
    op.create_index("ix_screening_identity", "screening", ["identity"], unique=False)
    op.create_index(
        "uq_screening_open_identity",
        "screening",
        ["identity"],
        unique=True,
        sqlite_where=sa.text("closed_ms IS NULL"),
        postgresql_where=sa.text("closed_ms IS NULL"),
    )


def _try_slot() -> None:
    op.create_table(
        "try_slot",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("task_id", sa.String(length=200), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("start_order", sa.Integer(), nullable=False),
        sa.Column("not_before_ms", sa.BigInteger(), nullable=False),
        sa.Column("limit_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=40), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("reruns", sa.Integer(), nullable=False),
        sa.Column("interruptions", sa.Integer(), nullable=False),
        sa.Column("reserved_nusd", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("sent_ms", sa.BigInteger(), nullable=True),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            (
                "(state = 'recorded' AND outcome IN ('passed', 'failed')) OR (state = "
                "'uncountable' AND outcome IN ('platform_fault', 'not_evaluable')) OR (state"
                " NOT IN ('recorded', 'uncountable') AND outcome IS NULL)"
            ),
            name=op.f("ck_try_slot_outcome"),
        ),
        sa.CheckConstraint(
            "(state IN ('queued', 'running')) OR reserved_nusd = 0", name=op.f("ck_try_slot_reserved")
        ),
        sa.CheckConstraint(
            ("state IN ('planned', 'queued', 'running', 'recorded', 'uncountable', 'cancelled')"),
            name=op.f("ck_try_slot_state"),
        ),
        sa.CheckConstraint(
            "k >= 1 AND token >= 0 AND reruns >= 0 AND reserved_nusd >= 0", name=op.f("ck_try_slot_numbers")
        ),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_try_slot_screening_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_try_slot")),
        sa.UniqueConstraint("screening_id", "start_order", name=op.f("uq_try_slot_screening_id_start_order")),
        sa.UniqueConstraint("screening_id", "task_id", "k", name=op.f("uq_try_slot_screening_id_task_id_k")),
    )
    op.create_index(
        "ix_try_slot_order",
        "try_slot",
        ["screening_id", "state", "start_order", "not_before_ms"],
        unique=False,
    )
    op.create_index("ix_try_slot_status", "try_slot", ["screening_id", "state", "outcome"], unique=False)


def _attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("slot_id", sa.String(length=26), nullable=False),
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=40), nullable=False),
        sa.Column("phase", sa.String(length=40), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("rule", sa.String(length=40), nullable=True),
        sa.Column("suspect", sa.Boolean(), nullable=True),
        sa.Column("reward", sa.String(length=64), nullable=True),
        sa.Column("checks_passed", sa.Integer(), nullable=True),
        sa.Column("checks_total", sa.Integer(), nullable=True),
        sa.Column("wall_ms", sa.BigInteger(), nullable=True),
        sa.Column("handed_off_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.Column("runtime", sa.String(length=64), nullable=True),
        sa.Column("details", sa.JSON(none_as_null=True), nullable=True),
        sa.CheckConstraint(
            (
                "(state = 'live' AND ended_ms IS NULL AND outcome IS NULL AND reason IS "
                "NULL) OR (state = 'recorded' AND ended_ms IS NOT NULL AND outcome IN "
                "('passed', 'failed')) OR (state = 'void' AND ended_ms IS NOT NULL AND "
                "outcome IN ('platform_fault', 'not_evaluable') AND reason IS NOT NULL) OR "
                "(state = 'void' AND ended_ms IS NOT NULL AND outcome IS NULL AND reason = "
                "'operator_cancelled')"
            ),
            name=op.f("ck_attempt_ending"),
        ),
        sa.CheckConstraint(
            ("outcome IS NULL OR outcome IN ('passed', 'failed', 'platform_fault', 'not_evaluable')"),
            name=op.f("ck_attempt_outcome"),
        ),
        sa.CheckConstraint("state IN ('live', 'recorded', 'void')", name=op.f("ck_attempt_state")),
        sa.ForeignKeyConstraint(["owner_id"], ["host_owner.id"], name=op.f("fk_attempt_owner_id")),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_attempt_screening_id")),
        sa.ForeignKeyConstraint(["slot_id"], ["try_slot.id"], name=op.f("fk_attempt_slot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("slot_id", "token", name=op.f("uq_attempt_slot_id_token")),
    )
    _attempt_indexes()


def _attempt_indexes() -> None:
    op.create_index(
        "ix_attempt_live_owner",
        "attempt",
        ["owner_id"],
        unique=False,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )
    op.create_index("ix_attempt_screening_id", "attempt", ["screening_id"], unique=False)
    op.create_index(
        "uq_attempt_one_counted",
        "attempt",
        ["slot_id"],
        unique=True,
        sqlite_where=sa.text("state = 'recorded'"),
        postgresql_where=sa.text("state = 'recorded'"),
    )
    op.create_index(
        "uq_attempt_one_live",
        "attempt",
        ["slot_id"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )


def _certificate() -> None:
    op.create_table(
        "certificate",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("slot_id", sa.String(length=26), nullable=True),
        sa.Column("token", sa.Integer(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("path", sa.String(length=400), nullable=True),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            (
                "(kind = 'try') = (attempt_id IS NOT NULL) AND (attempt_id IS NULL) = "
                "(slot_id IS NULL) AND (slot_id IS NULL) = (token IS NULL)"
            ),
            name=op.f("ck_certificate_subject"),
        ),
        sa.CheckConstraint("kind IN ('opening', 'try', 'summary')", name=op.f("ck_certificate_kind")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_certificate_attempt_id")),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_certificate_screening_id")),
        sa.ForeignKeyConstraint(
            ["slot_id", "token"],
            ["attempt.slot_id", "attempt.token"],
            name=op.f("fk_certificate_slot_id_token"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certificate")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_certificate_attempt_id")),
        sa.UniqueConstraint("digest", name=op.f("uq_certificate_digest")),
    )
    op.create_index("ix_certificate_screening_id_kind", "certificate", ["screening_id", "kind"], unique=False)
    op.create_index(
        "uq_certificate_one_opening",
        "certificate",
        ["screening_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'opening'"),
        postgresql_where=sa.text("kind = 'opening'"),
    )
    op.create_index(
        "uq_certificate_one_summary",
        "certificate",
        ["screening_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'summary'"),
        postgresql_where=sa.text("kind = 'summary'"),
    )


def _event() -> None:
    op.create_table(
        "event",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("slot_id", sa.String(length=26), nullable=True),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("from_state", sa.String(length=40), nullable=True),
        sa.Column("to_state", sa.String(length=40), nullable=True),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_event_attempt_id")),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_event_screening_id")),
        sa.ForeignKeyConstraint(["slot_id"], ["try_slot.id"], name=op.f("fk_event_slot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index("ix_event_attempt_id", "event", ["attempt_id"], unique=False)
    op.create_index("ix_event_screening_id", "event", ["screening_id", "id"], unique=False)
    op.create_index("ix_event_slot_id", "event", ["slot_id"], unique=False)


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("manifest_digest", sa.String(length=64), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_evidence_attempt_id")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_evidence")),
    )


def _spend_entry() -> None:
    op.create_table(
        "spend_entry",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("screening_id", sa.String(length=26), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("nusd", sa.BigInteger(), nullable=False),
        sa.Column("payer", sa.String(length=40), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("payer IN ('agent', 'platform')", name=op.f("ck_spend_entry_payer")),
        sa.CheckConstraint("nusd >= 0", name=op.f("ck_spend_entry_nusd")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_spend_entry_attempt_id")),
        sa.ForeignKeyConstraint(["screening_id"], ["screening.id"], name=op.f("fk_spend_entry_screening_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spend_entry")),
        sa.UniqueConstraint("attempt_id", "payer", name=op.f("uq_spend_entry_attempt_id_payer")),
    )
    op.create_index(
        "ix_spend_entry_screening_id", "spend_entry", ["screening_id", "payer", "nusd"], unique=False
    )


def upgrade() -> None:
    """Create every table; the triggers come from `orchestrator.ledger.rules`."""
    _host_owner()
    _pack_check()
    _screening()
    _try_slot()
    _attempt()
    _certificate()
    _event()
    _evidence()
    _spend_entry()


def downgrade() -> None:
    """Refuse: a ledger is append-only, restore a copy instead."""
    raise NotImplementedError("the ledger never goes back to an older schema")
