"""The role of workers can do what a worker does, and is refused each kind of statement beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg.sql
import pytest
from sqlalchemy.exc import IntegrityError, ProgrammingError

from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger, upgrade
from orchestrator.ledger.models import Base
from orchestrator.ledger.owners import register, retire
from orchestrator.ledger.records import CertificateKind, add_certificate
from orchestrator.ledger.roles import WORKER, grant_worker, worker_roles
from orchestrator.ledger.transitions import (
    Answer,
    AttemptEnd,
    beat,
    claim,
    close,
    end_attempt,
    queue,
    start,
    stop_attempt,
)
from scoring.vocabulary import Phase, Reason
from tests.assets.services.postgres import PostgresServer

MakeEnd = Callable[..., AttemptEnd]
REFUSAL = r"permission denied|must be owner"
ROLE = 'odd "Worker" %s'
PASSING = {"host", "host_owner", "worker", "subnet_lease", "provider_limit", "kept_room", "place_wait"}
"""Tables of what is there now; their rows come and go."""


@pytest.fixture
def worker(postgres_server: PostgresServer, postgres_ledger: Ledger, clock: Any) -> Iterator[Ledger]:
    """The same ledger, opened as the role of workers."""
    grant_worker(postgres_ledger, ROLE, password="not in any argv")
    url = postgres_ledger.engine.url.set(username=ROLE)
    opened = open_ledger(url, clock)
    yield opened
    opened.close()
    database = str(postgres_ledger.engine.url.database)
    for statement in ("DROP OWNED BY {}", "DROP ROLE {}"):
        postgres_server.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(ROLE)), database)


@pytest.fixture
def ended(postgres_ledger: Ledger, worker: Ledger, end: MakeEnd) -> str:
    """As the worker: one attempt recorded, one live; as the signer: a certificate."""
    screening = plan_stub(postgres_ledger, ["a", "b"], tries=1, cap_nusd=100, try_cap_nusd=10)
    start(postgres_ledger, screening, who="test")
    owner = register(worker)
    assert queue(worker, screening, 2) == 2
    held = claim(worker, screening, owner.id, lease_ms=1000)
    assert held is not None
    assert end_attempt(worker, held, end(Reason.ALL_CHECKS_PASSED)) is Answer.RECORDED
    assert claim(worker, screening, owner.id, lease_ms=1000) is not None
    add_certificate(
        postgres_ledger,
        screening_id=screening,
        kind=CertificateKind.TRY,
        digest="1" * 64,
        envelope=b"{}",
        who="signer",
        attempt_id=held.attempt_id,
    )
    return screening


def test_every_table_was_thought_of() -> None:
    """A new table is read-only for workers until somebody decides otherwise, which this asks for."""
    assert set(WORKER) == set(Base.metadata.tables)
    for name, rights in WORKER.items():
        assert set(rights.update) <= set(Base.metadata.tables[name].columns.keys())
    assert not WORKER["certificate"].insert and not WORKER["certificate"].update


def test_a_worker_can_do_its_work(postgres_ledger: Ledger, worker: Ledger, end: MakeEnd, clock: Any) -> None:
    """Register, queue, claim, beat, record, void, stop, close: every transition of a worker."""
    screening = plan_stub(postgres_ledger, ["a", "b", "c"], tries=1)
    start(postgres_ledger, screening, who="test")
    owner = register(worker)
    queue(worker, screening, 5)
    reasons = [Reason.ENGINE_ERROR, None, Reason.WRONG_OUTPUT]
    for reason in reasons + [Reason.ALL_CHECKS_PASSED] * 2:
        held = claim(worker, screening, owner.id, lease_ms=1000)
        assert held is not None
        assert beat(worker, owner.id, {held.attempt_id: Phase.AGENT}, lease_ms=1000).live == {held.attempt_id}
        if reason is None:
            stop_attempt(worker, held, who="test", nusd=3)
        else:
            end_attempt(worker, held, end(reason, digest=held.attempt_id.ljust(64, "0")), back_off_ms=0)
        clock.now_ms += 10
    assert close(worker, screening, who="test") == "complete"
    retire(worker, owner)
    assert violations(worker) == []


def test_the_local_engine_runs_as_a_worker(postgres_ledger: Ledger, worker: Ledger) -> None:
    """The whole engine, certification aside, needs no more than the role has."""
    screening = plan_stub(postgres_ledger, ["a", "b"])
    start(postgres_ledger, screening, who="test")
    settings = Settings(back_off_ms=0, idle_ms=5, beat_ms=10)
    engine = LocalEngine(worker, Callbacks(StubAttempt(), stub_order), settings)
    assert engine.run([screening], 2).states == {screening: "complete"}
    assert violations(postgres_ledger) == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO certificate SELECT * FROM certificate",
        "UPDATE certificate SET path = 'x'",
        "DELETE FROM certificate",
        "TRUNCATE certificate",
        "UPDATE event SET who = 'x'",
        "DELETE FROM event",
        "TRUNCATE event",
        "UPDATE evidence SET manifest_digest = 'x'",
        "DELETE FROM evidence",
        "UPDATE spend_entry SET nusd = 0",
        "DELETE FROM spend_entry",
        "DELETE FROM attempt",
        "DELETE FROM try_slot",
        "INSERT INTO try_slot SELECT * FROM try_slot",
        "INSERT INTO screening SELECT * FROM screening",
        "UPDATE screening SET cap_nusd = 999999",
        "UPDATE screening SET rerun_limit = 9",
        "UPDATE screening SET conditions = '{}'",
        "UPDATE try_slot SET task_id = 'x'",
        "UPDATE try_slot SET limit_ms = 1",
        "UPDATE attempt SET token = 9",
        "UPDATE attempt SET claimed_ms = 1",
        "UPDATE attempt SET deadline_ms = 1",
        "INSERT INTO pack_check SELECT * FROM pack_check",
        "UPDATE alembic_version SET version_num = '9999'",
        "CREATE TABLE mine (n integer)",
        "CREATE TEMPORARY TABLE event (n integer)",
        "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA mine",
        "CREATE OR REPLACE FUNCTION assize_refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NEW; END'",
        "DROP TRIGGER tr_event_no_update ON event",
        "ALTER TABLE event DISABLE TRIGGER tr_event_no_update",
        "ALTER TABLE attempt ADD COLUMN mine integer",
        "DROP TABLE event",
        "DROP INDEX uq_attempt_one_live",
        "SET session_replication_role = 'replica'",
        "SELECT setval('event_id_seq', 1)",
    ],
)
def test_statements_beyond_it_are_refused(worker: Ledger, ended: str, statement: str) -> None:
    """Item 2 of the issue: no certificates, no history, no plan, no schema."""
    with pytest.raises(ProgrammingError, match=REFUSAL), worker.unit_of_work() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE try_slot SET state = 'queued', outcome = NULL WHERE state = 'recorded'", "an ended slot"),
        ("UPDATE try_slot SET outcome = 'failed' WHERE state = 'recorded'", "an ended slot"),
        ("UPDATE attempt SET outcome = 'failed' WHERE state = 'recorded'", "an ended attempt"),
        ("UPDATE try_slot SET token = token - 1 WHERE state = 'running'", "a token only grows"),
        ("UPDATE screening SET used_nusd = 1000", "ck_screening_cap"),
    ],
)
def test_ended_tries_stand_against_the_worker_too(
    worker: Ledger, ended: str, statement: str, refusal: str
) -> None:
    """What its columns would allow, the triggers and checks refuse."""
    with pytest.raises(IntegrityError, match=refusal), worker.unit_of_work() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize("table", sorted(set(Base.metadata.tables) - PASSING))
def test_not_even_the_owner_truncates(postgres_ledger: Ledger, table: str) -> None:
    """TRUNCATE fires no trigger of rows; it has one of its own (TRUNCATE CASCADE included)."""
    with pytest.raises(IntegrityError, match="never deleted"), postgres_ledger.unit_of_work() as connection:
        connection.exec_driver_sql(f"TRUNCATE {table} CASCADE")


def test_rights_return_after_an_upgrade(
    postgres_server: PostgresServer, postgres_ledger: Ledger, worker: Ledger
) -> None:
    """A table of a later revision is readable by workers without another command."""
    with postgres_ledger.unit_of_work() as connection:
        assert worker_roles(connection) == [ROLE]
    revoke = psycopg.sql.SQL("REVOKE SELECT ON event FROM {}").format(psycopg.sql.Identifier(ROLE))
    postgres_server.execute(revoke, str(postgres_ledger.engine.url.database))
    with pytest.raises(ProgrammingError):
        queries.history(worker, "none")
    upgrade(postgres_ledger.engine.url)
    assert queries.history(worker, "none") == []


def test_roles_that_cannot_be_limited_are_refused(postgres_ledger: Ledger, sqlite_ledger: Ledger) -> None:
    """The owner, a superuser, nobody, and a database without roles."""
    with pytest.raises(UsageError, match="owns the ledger"):
        grant_worker(postgres_ledger, "assize")
    with pytest.raises(NotFoundError, match="no role nobody-here") as caught:
        grant_worker(postgres_ledger, "nobody-here")
    assert "--password-file" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="no roles"):
        grant_worker(sqlite_ledger, "worker")


def test_the_password_is_kept_as_a_verifier(postgres_server: PostgresServer, worker: Ledger) -> None:
    """The server is told a SCRAM verifier, never the password."""
    query = psycopg.sql.SQL("SELECT rolpassword FROM pg_authid WHERE rolname = {}")
    [(kept,)] = postgres_server.execute(query.format(psycopg.sql.Literal(ROLE)))
    assert str(kept).startswith("SCRAM-SHA-256$")
