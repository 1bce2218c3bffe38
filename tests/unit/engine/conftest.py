"""A fresh ledger per test and engines whose attempts wait for facts, never for time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger


@pytest.fixture(params=["sqlite"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    assert request.param == "sqlite"
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = open_ledger(ledger_url)
    yield opened
    opened.close()
