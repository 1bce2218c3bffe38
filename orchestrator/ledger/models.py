"""The ledger's tables (reference/distribution.md 4.1), the same for SQLite and PostgreSQL.

Ids are ULID text, money is integer nano-USD, times are integer Unix milliseconds UTC. State changes are
made by `orchestrator.ledger.transitions` and `.screenings` only, never through ORM objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from orchestrator.ledger.states import OPERATOR_CANCELLED, AttemptState, ScreeningState, SlotState
from scoring.vocabulary import Outcome

NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def _one_of(column: str, values: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


class Base(DeclarativeBase):
    """Declarative base; every constraint and index has a name from the first revision on."""

    metadata = MetaData(naming_convention=NAMING)


Id = String(26)
Digest = String(64)
Word = String(40)


class HostOwner(Base):
    """One process that runs attempts; how another process of the host can tell that it is dead."""

    __tablename__ = "host_owner"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    host: Mapped[str] = mapped_column(String(128))
    boot_id: Mapped[str] = mapped_column(String(64))
    pid_namespace: Mapped[str] = mapped_column(String(64))
    pid: Mapped[int]
    pid_started: Mapped[str] = mapped_column(String(32))
    started_ms: Mapped[int] = mapped_column(BigInteger)
    beaten_ms: Mapped[int] = mapped_column(BigInteger)
    ended_ms: Mapped[int | None] = mapped_column(BigInteger)
    worker_id: Mapped[str | None] = mapped_column(Id)


class Host(Base):
    """A named host of workers; on a draining one nothing is claimed, whatever process asks."""

    __tablename__ = "host"
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    draining: Mapped[bool]
    changed_ms: Mapped[int] = mapped_column(BigInteger)


class Worker(Base):
    """One worker or dispatcher process with everything that an operator wants to know of it.

    Its attempts are run by children, each an owner (`host_owner.worker_id`). `swept_ms` and `reaped_ms` say
    when it last looked for lost messages and for lost attempts.
    """

    __tablename__ = "worker"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    role: Mapped[str] = mapped_column(Word)
    host_name: Mapped[str] = mapped_column(ForeignKey("host.name"))
    machine: Mapped[str] = mapped_column(String(128))
    boot_id: Mapped[str] = mapped_column(String(64))
    pid_namespace: Mapped[str] = mapped_column(String(64))
    pid: Mapped[int]
    pid_started: Mapped[str] = mapped_column(String(32))
    hardware_class: Mapped[str] = mapped_column(String(128))
    slots: Mapped[int]
    queues: Mapped[list[str]] = mapped_column(JSON)
    children: Mapped[int]
    refused: Mapped[int] = mapped_column(BigInteger)
    started_ms: Mapped[int] = mapped_column(BigInteger)
    beaten_ms: Mapped[int] = mapped_column(BigInteger)
    swept_ms: Mapped[int | None] = mapped_column(BigInteger)
    reaped_ms: Mapped[int | None] = mapped_column(BigInteger)
    ended_ms: Mapped[int | None] = mapped_column(BigInteger)
    __table_args__ = (
        CheckConstraint("role IN ('worker', 'dispatcher')", name="role"),
        CheckConstraint("slots >= 0 AND children >= 0 AND refused >= 0", name="numbers"),
    )


class Screening(Base):
    """One agent revision x one pack version x one set of conditions."""

    __tablename__ = "screening"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    identity: Mapped[str] = mapped_column(Digest)
    pack_id: Mapped[str] = mapped_column(String(128))
    pack_version: Mapped[str] = mapped_column(String(64))
    pack_digest: Mapped[str] = mapped_column(Digest)
    agent_id: Mapped[str] = mapped_column(String(128))
    agent_version: Mapped[str] = mapped_column(String(64))
    agent_digest: Mapped[str] = mapped_column(Digest)
    conditions: Mapped[dict[str, Any]] = mapped_column(JSON)
    comparability: Mapped[str] = mapped_column(Digest)
    requester: Mapped[str] = mapped_column(String(128))
    funder: Mapped[str] = mapped_column(String(128))
    seed: Mapped[str] = mapped_column(Digest)
    window_ms: Mapped[int] = mapped_column(BigInteger)
    planned_slots: Mapped[int]
    rerun_limit: Mapped[int]
    try_cap_nusd: Mapped[int] = mapped_column(BigInteger)
    cap_nusd: Mapped[int | None] = mapped_column(BigInteger)
    used_nusd: Mapped[int] = mapped_column(BigInteger)
    reserved_nusd: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(Word)
    stop_reason: Mapped[str | None] = mapped_column(Word)
    engine: Mapped[str] = mapped_column(Word, server_default="local")
    share: Mapped[int] = mapped_column(server_default="1")
    providers: Mapped[list[str]] = mapped_column(JSON, server_default="[]")
    created_ms: Mapped[int] = mapped_column(BigInteger)
    started_ms: Mapped[int | None] = mapped_column(BigInteger)
    closed_ms: Mapped[int | None] = mapped_column(BigInteger)
    __table_args__ = (
        CheckConstraint(_one_of("state", ScreeningState), name="state"),
        CheckConstraint("used_nusd >= 0 AND reserved_nusd >= 0 AND try_cap_nusd >= 0", name="money"),
        CheckConstraint("cap_nusd IS NULL OR used_nusd + reserved_nusd <= cap_nusd", name="cap"),
        Index("ix_screening_identity", "identity"),
        Index(
            "uq_screening_open_identity",
            "identity",
            unique=True,
            sqlite_where=text("closed_ms IS NULL"),
            postgresql_where=text("closed_ms IS NULL"),
        ),
    )


class TrySlot(Base):
    """The k-th of the planned tries of a task in a screening; `token` is its current fencing token."""

    __tablename__ = "try_slot"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"))
    task_id: Mapped[str] = mapped_column(String(200))
    k: Mapped[int]
    start_order: Mapped[int]
    not_before_ms: Mapped[int] = mapped_column(BigInteger)
    limit_ms: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(Word)
    generation: Mapped[int]
    token: Mapped[int]
    reruns: Mapped[int]
    interruptions: Mapped[int]
    reserved_nusd: Mapped[int] = mapped_column(BigInteger)
    outcome: Mapped[str | None] = mapped_column(Word)
    reason: Mapped[str | None] = mapped_column(Word)
    sent_ms: Mapped[int | None] = mapped_column(BigInteger)
    updated_ms: Mapped[int] = mapped_column(BigInteger)
    queue: Mapped[str] = mapped_column(String(128), server_default="")
    cpus_milli: Mapped[int] = mapped_column(server_default="0")
    memory_mb: Mapped[int] = mapped_column(server_default="0")
    __table_args__ = (
        UniqueConstraint("screening_id", "task_id", "k"),
        UniqueConstraint("screening_id", "start_order"),
        CheckConstraint(_one_of("state", SlotState), name="state"),
        CheckConstraint(
            "(state = 'recorded' AND outcome IN ('passed', 'failed'))"
            " OR (state = 'uncountable' AND outcome IN ('platform_fault', 'not_evaluable'))"
            " OR (state NOT IN ('recorded', 'uncountable') AND outcome IS NULL)",
            name="outcome",
        ),
        CheckConstraint("(state IN ('queued', 'running')) OR reserved_nusd = 0", name="reserved"),
        CheckConstraint("k >= 1 AND token >= 0 AND reruns >= 0 AND reserved_nusd >= 0", name="numbers"),
        Index("ix_try_slot_status", "screening_id", "state", "outcome"),
        Index("ix_try_slot_order", "screening_id", "state", "start_order", "not_before_ms"),
        Index(
            "ix_try_slot_queued",
            "queue",
            "sent_ms",
            sqlite_where=text("state = 'queued'"),
            postgresql_where=text("state = 'queued'"),
        ),
    )


class Attempt(Base):
    """One physical run of a slot under one token.

    `number` is 1 + the platform faults of the slot before it, which is what a certificate calls the
    attempt; a run that only an operator interrupted shares its number with its successor, and differs
    from it in `token`.
    """

    __tablename__ = "attempt"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    slot_id: Mapped[str] = mapped_column(ForeignKey("try_slot.id"))
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"))
    token: Mapped[int]
    number: Mapped[int]
    state: Mapped[str] = mapped_column(Word)
    phase: Mapped[str] = mapped_column(Word)
    owner_id: Mapped[str] = mapped_column(ForeignKey("host_owner.id"))
    lease_until_ms: Mapped[int] = mapped_column(BigInteger)
    deadline_ms: Mapped[int] = mapped_column(BigInteger)
    claimed_ms: Mapped[int] = mapped_column(BigInteger)
    ended_ms: Mapped[int | None] = mapped_column(BigInteger)
    outcome: Mapped[str | None] = mapped_column(Word)
    reason: Mapped[str | None] = mapped_column(Word)
    rule: Mapped[str | None] = mapped_column(Word)
    suspect: Mapped[bool | None]
    reward: Mapped[str | None] = mapped_column(String(64))
    checks_passed: Mapped[int | None]
    checks_total: Mapped[int | None]
    wall_ms: Mapped[int | None] = mapped_column(BigInteger)
    handed_off_ms: Mapped[int | None] = mapped_column(BigInteger)
    finished_ms: Mapped[int | None] = mapped_column(BigInteger)
    runtime: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    __table_args__ = (
        UniqueConstraint("slot_id", "token"),
        CheckConstraint(_one_of("state", AttemptState), name="state"),
        CheckConstraint(f"outcome IS NULL OR {_one_of('outcome', Outcome)}", name="outcome"),
        CheckConstraint(
            "(state = 'live' AND ended_ms IS NULL AND outcome IS NULL AND reason IS NULL)"
            " OR (state = 'recorded' AND ended_ms IS NOT NULL AND outcome IN ('passed', 'failed'))"
            " OR (state = 'void' AND ended_ms IS NOT NULL AND outcome IN ('platform_fault', 'not_evaluable')"
            " AND reason IS NOT NULL)"
            " OR (state = 'void' AND ended_ms IS NOT NULL AND outcome IS NULL"
            f" AND reason = '{OPERATOR_CANCELLED}')",
            name="ending",
        ),
        Index(
            "uq_attempt_one_live",
            "slot_id",
            unique=True,
            sqlite_where=text("state = 'live'"),
            postgresql_where=text("state = 'live'"),
        ),
        Index(
            "uq_attempt_one_counted",
            "slot_id",
            unique=True,
            sqlite_where=text("state = 'recorded'"),
            postgresql_where=text("state = 'recorded'"),
        ),
        Index(
            "ix_attempt_live_owner",
            "owner_id",
            sqlite_where=text("state = 'live'"),
            postgresql_where=text("state = 'live'"),
        ),
        Index("ix_attempt_screening_id", "screening_id"),
    )


class Evidence(Base):
    """Which evidence manifest (SHA-256 of its canonical bytes) an ended attempt left."""

    __tablename__ = "evidence"
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempt.id"), primary_key=True)
    manifest_digest: Mapped[str] = mapped_column(Digest)
    at_ms: Mapped[int] = mapped_column(BigInteger)


class Certificate(Base):
    """A signed statement: the opening or the summary of a screening, or the end of one attempt.

    A try certificate names slot and token, which together must be an attempt (composite foreign key).
    """

    __tablename__ = "certificate"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"))
    kind: Mapped[str] = mapped_column(Word)
    attempt_id: Mapped[str | None] = mapped_column(ForeignKey("attempt.id"), unique=True)
    slot_id: Mapped[str | None] = mapped_column(Id)
    token: Mapped[int | None]
    digest: Mapped[str] = mapped_column(Digest, unique=True)
    path: Mapped[str | None] = mapped_column(String(400))
    envelope: Mapped[bytes] = mapped_column(LargeBinary)
    at_ms: Mapped[int] = mapped_column(BigInteger)
    __table_args__ = (
        ForeignKeyConstraint(["slot_id", "token"], ["attempt.slot_id", "attempt.token"]),
        CheckConstraint("kind IN ('opening', 'try', 'summary')", name="kind"),
        CheckConstraint(
            "(kind = 'try') = (attempt_id IS NOT NULL)"
            " AND (attempt_id IS NULL) = (slot_id IS NULL) AND (slot_id IS NULL) = (token IS NULL)",
            name="subject",
        ),
        Index(
            "uq_certificate_one_opening",
            "screening_id",
            unique=True,
            sqlite_where=text("kind = 'opening'"),
            postgresql_where=text("kind = 'opening'"),
        ),
        Index(
            "uq_certificate_one_summary",
            "screening_id",
            unique=True,
            sqlite_where=text("kind = 'summary'"),
            postgresql_where=text("kind = 'summary'"),
        ),
        Index("ix_certificate_screening_id_kind", "screening_id", "kind"),
    )


class SpendEntry(Base):
    """What one attempt cost and who pays: the agent for a recorded attempt, the platform for a void one."""

    __tablename__ = "spend_entry"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"))
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempt.id"))
    nusd: Mapped[int] = mapped_column(BigInteger)
    payer: Mapped[str] = mapped_column(Word)
    at_ms: Mapped[int] = mapped_column(BigInteger)
    __table_args__ = (
        UniqueConstraint("attempt_id", "payer"),
        CheckConstraint("nusd >= 0", name="nusd"),
        CheckConstraint("payer IN ('agent', 'platform')", name="payer"),
        Index("ix_spend_entry_screening_id", "screening_id", "payer", "nusd"),
    )


class PackCheck(Base):
    """One run of the admission gate on one task: what makes its grader "proven"."""

    __tablename__ = "pack_check"
    id: Mapped[str] = mapped_column(Id, primary_key=True)
    pack_digest: Mapped[str] = mapped_column(Digest)
    task_id: Mapped[str] = mapped_column(String(200))
    task_digest: Mapped[str] = mapped_column(Digest)
    agent_image: Mapped[str] = mapped_column(String(80))
    grader_image: Mapped[str] = mapped_column(String(80))
    oracle_runs: Mapped[int]
    oracle_passes: Mapped[int]
    nop_runs: Mapped[int]
    nop_fails: Mapped[int]
    stable: Mapped[bool]
    at_ms: Mapped[int] = mapped_column(BigInteger)
    __table_args__ = (
        CheckConstraint(
            "oracle_passes BETWEEN 0 AND oracle_runs AND nop_fails BETWEEN 0 AND nop_runs", name="counts"
        ),
        Index("ix_pack_check_subject", "task_digest", "agent_image", "grader_image"),
    )


class ProviderLimit(Base):
    """The most tries that may use a model provider at a time, over all hosts."""

    __tablename__ = "provider_limit"
    provider: Mapped[str] = mapped_column(String(128), primary_key=True)
    most: Mapped[int]
    changed_ms: Mapped[int] = mapped_column(BigInteger)
    __table_args__ = (CheckConstraint("most >= 1", name="most"),)


class KeptRoom(Base):
    """The one try that a host keeps its room for, or will: it waits for room there since `since_ms`.

    Good until `until_ms`; at most one host waits for a try.
    """

    __tablename__ = "kept_room"
    host_name: Mapped[str] = mapped_column(ForeignKey("host.name"), primary_key=True)
    slot_id: Mapped[str] = mapped_column(ForeignKey("try_slot.id"), unique=True)
    since_ms: Mapped[int] = mapped_column(BigInteger)
    until_ms: Mapped[int] = mapped_column(BigInteger)


class PlaceWait(Base):
    """A screening that was refused a place at a provider and asks again; gone when it has one.

    Good until `until_ms`, as whoever asked may be dead.
    """

    __tablename__ = "place_wait"
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"), primary_key=True)
    since_ms: Mapped[int] = mapped_column(BigInteger)
    until_ms: Mapped[int] = mapped_column(BigInteger)


class SubnetLease(Base):
    """A subnet (CIDR) that one attempt's pod holds; given back at its clean-up, and void when it ended.

    Attempts of the admission gate are in no other table, so the attempt is no foreign key; the owner is.
    """

    __tablename__ = "subnet_lease"
    subnet: Mapped[str] = mapped_column(String(18), primary_key=True)
    attempt_id: Mapped[str] = mapped_column(Id, unique=True)
    owner_id: Mapped[str] = mapped_column(ForeignKey("host_owner.id"))
    taken_ms: Mapped[int] = mapped_column(BigInteger)


class Event(Base):
    """The history: one row per transition, written in the same transaction, never changed."""

    __tablename__ = "event"
    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    at_ms: Mapped[int] = mapped_column(BigInteger)
    screening_id: Mapped[str] = mapped_column(ForeignKey("screening.id"))
    slot_id: Mapped[str | None] = mapped_column(ForeignKey("try_slot.id"))
    attempt_id: Mapped[str | None] = mapped_column(ForeignKey("attempt.id"))
    kind: Mapped[str] = mapped_column(Word)
    from_state: Mapped[str | None] = mapped_column(Word)
    to_state: Mapped[str | None] = mapped_column(Word)
    who: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str | None] = mapped_column(Word)
    data: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    __table_args__ = (
        Index("ix_event_screening_id", "screening_id", "id"),
        Index("ix_event_attempt_id", "attempt_id"),
        Index("ix_event_slot_id", "slot_id"),
    )
