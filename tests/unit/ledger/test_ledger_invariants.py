"""Every invariant query can fail: each is shown a ledger that is wrong in exactly its way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.engine import Connection

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import CHECKS, violations
from orchestrator.ledger.models import Base
from orchestrator.ledger.records import CertificateKind, add_certificate
from orchestrator.ledger.rules import RULES
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import AttemptEnd, claim, end_attempt, start
from orchestrator.ledger.window import fill
from scoring.vocabulary import Reason

MakeEnd = Callable[..., AttemptEnd]

DAMAGE = {
    "planned = recorded + uncountable + cancelled + open": "UPDATE screening SET planned_slots = 99",
    "one live attempt per running slot": "UPDATE try_slot SET state = 'queued' WHERE state = 'running'",
    "one counted attempt per recorded slot": (
        "UPDATE try_slot SET state = 'cancelled', outcome = NULL WHERE state = 'recorded'"
    ),
    "nothing starts after a record": (
        "UPDATE attempt SET slot_id = (SELECT slot_id FROM attempt WHERE state = 'recorded'), token = 9"
        " WHERE state = 'live'"
    ),
    "no stale token": "UPDATE try_slot SET token = token + 1",
    "used + reserved <= cap, and both add up": "UPDATE screening SET used_nusd = used_nusd + 1",
    "void spend is the platform's": "UPDATE spend_entry SET payer = 'agent'",
    "re-runs are capped and every void attempt is explained": "UPDATE try_slot SET reruns = 3",
    "every live attempt has a lease": "UPDATE attempt SET lease_until_ms = 1 WHERE state = 'live'",
    "every queued slot was told to workers": (
        "UPDATE try_slot SET state = 'queued', sent_ms = NULL, not_before_ms = 0, updated_ms = 0"
        " WHERE state = 'running'"
    ),
    "certificates stand for ended attempts": (
        "UPDATE certificate SET attempt_id = (SELECT id FROM attempt WHERE state = 'live') WHERE kind = 'try'"
    ),
    "recorded attempts have evidence": "DELETE FROM evidence",
    "an outcome never changes": "UPDATE attempt SET reason = 'crash' WHERE reason = 'wrong_output'",
}


@pytest.fixture
def busy(ledger: Ledger, owner_id: str, end: MakeEnd) -> str:
    """A recorded, a void and a live attempt, certificates and spend; sound."""
    screening = plan_stub(ledger, ["a", "b", "c"], tries=1, engine=EngineName.CELERY)
    start(ledger, screening, who="test")
    fill(ledger, {"": 5}, who="test")
    for reason in (Reason.WRONG_OUTPUT, Reason.ENGINE_ERROR, None):
        held = claim(ledger, screening, owner_id, lease_ms=1000)
        assert held is not None
        if reason is not None:
            end_attempt(ledger, held, end(reason, digest=reason[0] * 64), back_off_ms=10_000)
    attempt = queries.certifiable(ledger)[0]
    add_certificate(
        ledger,
        screening_id=screening,
        kind=CertificateKind.TRY,
        digest="1" * 64,
        envelope=b"x",
        who="test",
        attempt_id=attempt,
    )
    assert violations(ledger) == []
    return screening


def _disarm(connection: Connection) -> None:
    postgres = connection.dialect.name == "postgresql"
    for rule in RULES:
        on = f" ON {rule.table}" if postgres else ""
        connection.exec_driver_sql(f"DROP TRIGGER {rule.name}{on}")
    connection.exec_driver_sql("DROP INDEX uq_attempt_one_live")
    connection.exec_driver_sql("DROP INDEX uq_attempt_one_counted")
    if postgres:
        kept = "SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE contype IN ('c', 'f')"
        for name, table in connection.exec_driver_sql(kept).all():
            if table in Base.metadata.tables:
                connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")


@pytest.mark.parametrize("name", [name for _, name, _ in CHECKS])
def test_damage_is_named(ledger: Ledger, busy: str, name: str) -> None:
    """4.6: a doctor that cannot say no is worthless."""
    with ledger.unit_of_work() as connection:
        _disarm(connection)
    with ledger.engine.connect() as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        cursor = driver.cursor()
        if ledger.engine.dialect.name == "sqlite":
            cursor.execute("PRAGMA foreign_keys = OFF")
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute(DAMAGE[name])
        assert cursor.rowcount > 0
        driver.commit()
    assert name in {found.name for found in violations(ledger)}


def test_a_summary_promises_every_certificate(ledger: Ledger, busy: str) -> None:
    """Invariant 12, the other way round: with a summary no ended attempt may lack its certificate."""
    add_certificate(
        ledger,
        screening_id=busy,
        kind=CertificateKind.SUMMARY,
        digest="2" * 64,
        envelope=b"x",
        who="test",
    )
    assert ["no certificate" in found.message for found in violations(ledger)] == [True]


def test_nothing_starts_before_the_opening_is_stored(ledger: Ledger, busy: str, clock: object) -> None:
    """DESIGN section 3: the opening statement comes before the first try."""
    clock.now_ms += 1  # type: ignore[attr-defined]
    add_certificate(
        ledger, screening_id=busy, kind=CertificateKind.OPENING, digest="3" * 64, envelope=b"x", who="test"
    )
    assert {"before the opening" in found.message for found in violations(ledger)} == {True}


def test_numbers_are_those_of_the_reference() -> None:
    """Which invariants are checked here; 8, 9 and 13 need the relay and the engine."""
    assert {number for number, _, _ in CHECKS} == {1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 14}
