"""A fresh ledger per test and database, and engines whose attempts wait for facts, never for time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from tests.assets.services import fixtures as services

ledger_url = services.ledger_url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = open_ledger(ledger_url)
    yield opened
    opened.close()
