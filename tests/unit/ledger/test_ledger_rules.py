"""The database itself refuses what may never happen, and says so when it lost a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.exc import IntegrityError

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError, SchemaError
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.records import (
    CertificateKind,
    TaskCheck,
    add_certificate,
    add_pack_check,
    certificates,
    last_pack_check,
)
from orchestrator.ledger.rules import RULES, check_rules, ensure_rules, missing_rules
from orchestrator.ledger.transitions import AttemptEnd, cancel, claim, close, end_attempt, queue, start
from scoring.vocabulary import Reason

MakeEnd = Callable[..., AttemptEnd]


@pytest.fixture
def filled(ledger: Ledger, owner_id: str, end: MakeEnd) -> str:
    """A closed screening with a recorded, a void, an uncountable and a cancelled end and certificates."""
    screening = plan_stub(ledger, ["a", "b"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 5)
    for reason in (Reason.ALL_CHECKS_PASSED, Reason.ENGINE_ERROR):
        held = claim(ledger, screening, owner_id, lease_ms=1000)
        assert held is not None
        end_attempt(ledger, held, end(reason, digest=reason[0] * 64), back_off_ms=0)
    cancel(ledger, screening, who="test")
    close(ledger, screening, who="test")
    for attempt in queries.certifiable(ledger):
        add_certificate(
            ledger,
            screening_id=screening,
            kind=CertificateKind.TRY,
            digest=attempt[-8:] * 8,
            envelope=b"{}",
            who="test",
            attempt_id=attempt,
        )
    add_pack_check(ledger, TaskCheck("d" * 64, "a", "e" * 64, "img", "img", 3, 3, 1, 1, True))
    return screening


@pytest.mark.parametrize("table", ["event", "certificate", "evidence", "spend_entry", "pack_check"])
@pytest.mark.parametrize("change", ["DELETE FROM {0}", "UPDATE {0} SET at_ms = at_ms + 1"])
def test_append_only_tables_refuse_every_change(ledger: Ledger, filled: str, table: str, change: str) -> None:
    """4.1 and invariant 14: what was written stays as it was written."""
    with pytest.raises(IntegrityError, match="append-only"), ledger.unit_of_work() as connection:
        connection.execute(sa.text(change.format(table)))


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE try_slot SET state = 'queued', outcome = NULL, reason = NULL", "an ended slot"),
        ("UPDATE try_slot SET updated_ms = 0", "an ended slot"),
        ("UPDATE attempt SET outcome = 'passed'", "an ended attempt"),
        ("UPDATE attempt SET wall_ms = 1", "an ended attempt"),
        ("UPDATE screening SET state = 'complete'", "a closed screening"),
        ("DELETE FROM try_slot", "never deleted"),
        ("DELETE FROM attempt", "never deleted"),
        ("DELETE FROM screening", "never deleted"),
    ],
)
def test_ended_things_never_change(ledger: Ledger, filled: str, statement: str, refusal: str) -> None:
    """The last row of table 4.2: recorded, uncountable, cancelled -> anything: nobody."""
    with pytest.raises(IntegrityError, match=refusal), ledger.unit_of_work() as connection:
        connection.execute(sa.text(statement))


REPLACE = {
    "sqlite": "INSERT OR REPLACE INTO evidence SELECT attempt_id, 'f', 1 FROM evidence",
    "postgresql": "INSERT INTO evidence SELECT attempt_id, 'f', 1 FROM evidence"
    " ON CONFLICT (attempt_id) DO UPDATE SET manifest_digest = 'f'",
}


def test_replacing_a_row_is_a_change_too(ledger: Ledger, filled: str) -> None:
    """INSERT OR REPLACE deletes silently unless triggers are recursive (SQLite); an upsert is an UPDATE."""
    statement = REPLACE[ledger.engine.dialect.name]
    with pytest.raises(IntegrityError, match="append-only"), ledger.unit_of_work() as connection:
        connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE try_slot SET token = token - 1", "a token only grows"),
        ("UPDATE try_slot SET task_id = 'other'", "keeps its screening"),
        ("UPDATE attempt SET token = 9", "keeps its slot and token"),
        ("UPDATE screening SET funder = 'other'", "keeps what it was planned as"),
    ],
)
def test_open_things_keep_their_identity(ledger: Ledger, owner_id: str, statement: str, refusal: str) -> None:
    """Tokens only grow (invariant 5); a plan is frozen."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    claim(ledger, screening, owner_id, lease_ms=1000)
    with pytest.raises(IntegrityError, match=refusal), ledger.unit_of_work() as connection:
        connection.execute(sa.text(statement))


def test_constraints_hold_against_direct_writes(ledger: Ledger, owner_id: str) -> None:
    """One live attempt per slot, one slot per (task, k), money never below zero, cap never passed."""
    screening = plan_stub(ledger, ["a"], tries=1, cap_nusd=10, try_cap_nusd=10)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    claim(ledger, screening, owner_id, lease_ms=1000)
    columns = (
        "slot_id, screening_id, token + 1, number, state, phase, owner_id, lease_until_ms, deadline_ms, 1"
    )
    names = columns.replace("token + 1", "token").replace(", 1", ", claimed_ms")
    for statement in (
        f"INSERT INTO attempt (id, {names}) SELECT 'second', {columns} FROM attempt",
        "UPDATE screening SET used_nusd = 1",
        "UPDATE screening SET reserved_nusd = -1",
        "UPDATE try_slot SET state = 'lost'",
        "UPDATE try_slot SET state = 'recorded'",
        "UPDATE try_slot SET screening_id = 'nowhere', id = 'x'",
    ):
        with pytest.raises(IntegrityError), ledger.unit_of_work() as connection:
            connection.execute(sa.text(statement))


def test_certificates_stand_only_for_ends(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Invariant 12: no certificate for a running attempt, one per place, storing it twice is harmless."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, owner_id, lease_ms=1000)
    assert held is not None

    def store(kind: CertificateKind, digest: str, attempt_id: str | None = None) -> bool:
        return add_certificate(
            ledger,
            screening_id=screening,
            kind=kind,
            digest=digest * 64,
            envelope=b"x",
            who="test",
            attempt_id=attempt_id,
        )

    with pytest.raises(LedgerError, match="no outcome"):
        store(CertificateKind.TRY, "1", held.attempt_id)
    end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED))
    assert store(CertificateKind.TRY, "1", held.attempt_id)
    assert not store(CertificateKind.TRY, "1", held.attempt_id)
    with pytest.raises(LedgerError, match="in the place"):
        store(CertificateKind.TRY, "2", held.attempt_id)
    assert store(CertificateKind.OPENING, "3")
    with pytest.raises(LedgerError, match="in the place"):
        store(CertificateKind.OPENING, "4")
    assert [one.kind for one in certificates(ledger, screening)] == ["opening", "try"]
    assert [one.digest for one in certificates(ledger, screening, CertificateKind.OPENING)] == ["3" * 64]


def test_the_newest_admission_check_counts(ledger: Ledger, clock: Any) -> None:
    """A grader is proven by the last run of the gate on exactly these images."""
    first = TaskCheck("d" * 64, "a", "e" * 64, "img", "img", 3, 3, 1, 1, True)
    second = TaskCheck("d" * 64, "a", "e" * 64, "img", "img", 3, 2, 1, 1, True)
    key = {"task_digest": "e" * 64, "agent_image": "img", "grader_image": "img"}
    assert last_pack_check(ledger, **key) is None
    add_pack_check(ledger, first)
    assert last_pack_check(ledger, **key) == first and first.proven
    clock.now_ms += 1
    add_pack_check(ledger, second)
    assert last_pack_check(ledger, **key) == second and not second.proven


LOSE = {
    "sqlite": (
        "DROP TRIGGER tr_event_no_update",
        "DROP INDEX uq_attempt_one_live",
        "DROP TRIGGER tr_try_slot_ended",
        "CREATE TRIGGER tr_try_slot_ended BEFORE UPDATE ON try_slot BEGIN SELECT 1; END",
    ),
    "postgresql": (
        "DROP TRIGGER tr_event_no_update ON event",
        "DROP INDEX uq_attempt_one_live",
        "DROP TRIGGER tr_try_slot_ended ON try_slot",
        "CREATE TRIGGER tr_try_slot_ended BEFORE UPDATE ON try_slot FOR EACH ROW"
        " WHEN (OLD.state = 'never') EXECUTE FUNCTION assize_refuse('an ended slot never changes')",
    ),
}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE event DISABLE TRIGGER tr_event_no_update",
        "ALTER TABLE event ENABLE REPLICA TRIGGER tr_event_no_update",
        "CREATE OR REPLACE FUNCTION assize_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NEW; END'",
    ],
)
def test_a_trigger_that_does_not_fire_is_missing(postgres_ledger: Ledger, statement: str) -> None:
    """It is there by name, and keeps nothing: switched off, or its function hollowed out."""
    with postgres_ledger.unit_of_work() as connection:
        connection.exec_driver_sql(statement)
        assert "trigger tr_event_no_update on event" in missing_rules(connection)
        ensure_rules(connection)
        assert missing_rules(connection) == []


def test_every_missing_rule_is_named_at_start_up(ledger: Ledger, ledger_url: str) -> None:
    """The start-up check lists every missing trigger and index, and a trigger whose text was changed."""
    with ledger.unit_of_work() as connection:
        assert missing_rules(connection) == []
        for statement in LOSE[ledger.engine.dialect.name]:
            connection.exec_driver_sql(statement)
        missing = missing_rules(connection)
    assert missing == [
        "index uq_attempt_one_live on attempt",
        "trigger tr_event_no_update on event",
        "trigger tr_try_slot_ended on try_slot",
    ]
    with pytest.raises(SchemaError, match="uq_attempt_one_live"):
        open_ledger(ledger_url)
    with ledger.unit_of_work() as connection:
        ensure_rules(connection)
        assert missing_rules(connection) == ["index uq_attempt_one_live on attempt"]


def test_rules_return_after_a_batch_migration(sqlite_ledger: Ledger) -> None:
    """Alembic's batch mode loses triggers without a word (section 7); `ensure_rules` restores them."""
    # Batch mode drops the old table, so no row may point at it meanwhile.
    engine = sa.create_engine(sqlite_ledger.engine.url)
    with engine.begin() as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("try_slot", recreate="always") as batch:
            batch.add_column(sa.Column("extra", sa.Integer(), nullable=True))
        lost = {rule.name for rule in RULES if rule.table == "try_slot"}
        assert {f"trigger {name} on try_slot" for name in lost} == set(missing_rules(connection))
        ensure_rules(connection)
        ensure_rules(connection)
        check_rules(connection)
    engine.dispose()
