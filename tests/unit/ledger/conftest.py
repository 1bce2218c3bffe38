"""A fresh ledger per test and database: every test of this folder that opens one runs on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import AttemptEnd
from orchestrator.observations import Observations
from scoring.vocabulary import OUTCOME_OF, Phase, Reason
from tests.assets.services import fixtures as services

ledger_url = services.ledger_url


class ManualClock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000

    def __call__(self, _connection: Connection) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ledger(ledger_url: str, clock: ManualClock) -> Iterator[Ledger]:
    opened = open_ledger(ledger_url, clock)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_ledger(tmp_path: Path, clock: ManualClock) -> Iterator[Ledger]:
    """For what only SQLite has: files, BEGIN modes, batch migrations."""
    opened = open_ledger(f"sqlite:///{tmp_path / 'only.db'}", clock)
    yield opened
    opened.close()


@pytest.fixture
def postgres_ledger(postgres_url: str, clock: ManualClock) -> Iterator[Ledger]:
    """For what only PostgreSQL has: isolation, roles, sessions."""
    opened = open_ledger(postgres_url, clock)
    yield opened
    opened.close()


@pytest.fixture
def owner_id(ledger: Ledger) -> str:
    return register(ledger).id


def _end(reason: Reason, *, digest: str | None = "a" * 64, nusd: int | None = 7) -> AttemptEnd:
    details = {"observations": Observations().as_data(), "evidence": [], "phases": []}
    return AttemptEnd(
        outcome=OUTCOME_OF[reason],
        reason=reason,
        phase=Phase.GRADE,
        rule="scripted",
        manifest_digest=digest,
        nusd=nusd,
        details=details,
    )


@pytest.fixture
def end() -> Callable[..., AttemptEnd]:
    return _end
