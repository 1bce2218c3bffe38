"""A small sheet, the case files, and one moment to price at."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.prices import importer
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.importer import Imported
from orchestrator.prices.sheet import PriceSheet

ROOT = Path(__file__).resolve().parents[3]
ASSETS = ROOT / "tests" / "assets" / "prices"
SHARED = Path(os.environ.get("ASSIZE_SHARED") or ROOT.parent / "shared")


@pytest.fixture(scope="session")
def case_prices() -> ModuleType:
    """The module that makes a sheet of the prices in a case file."""
    spec = importlib.util.spec_from_file_location("case_prices", ASSETS / "case_prices.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cases() -> Callable[[str], dict[str, Any]]:
    """A case file by its name; skips the test where the shared folder is absent."""

    def read(name: str) -> dict[str, Any]:
        path = SHARED / "cases" / name
        if not path.is_file():
            pytest.skip(f"the case files are not here (ASSIZE_SHARED): {name}")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    return read


@pytest.fixture(scope="session")
def bad_entries() -> dict[str, Any]:
    """Named bad entries: what differs from a good one, and words of the refusal."""
    found: dict[str, Any] = json.loads((ASSETS / "bad_entries.json").read_text())
    return found


@pytest.fixture(scope="session")
def data_of() -> Callable[..., dict[str, Any]]:
    """JSON-ready data of a sheet; each argument says how an entry differs from the plain one."""

    def make(*changes: dict[str, Any]) -> dict[str, Any]:
        plain = {
            "provider": "p",
            "ids": ["m"],
            "valid_from": "2026-01-01",
            "standard": {"input": 3_000_000_000, "output": 15_000_000_000},
            "source": "fictional",
            "retrieved": "2026-01-01",
        }
        entries = [{**plain, **change} for change in changes or ({},)]
        return {"format": "assize.prices/1", "id": "test", "date": "2026-01-02", "entries": entries}

    return make


@pytest.fixture(scope="session")
def price_of(data_of: Callable[..., dict[str, Any]]) -> Callable[..., ModelPrice]:
    """One entry that differs from the plain one as said."""

    def make(**change: Any) -> ModelPrice:
        return PriceSheet.from_data(data_of(change)).entries[0]

    return make


@pytest.fixture
def noon() -> datetime:
    return datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Imported]:
    """Imports these models of a provider `p`, the only one of the source."""
    from genai_prices.types import Provider

    def run(*models: Any, day: date = date(2026, 11, 30), previous: PriceSheet | None = None) -> Imported:
        provider = Provider(
            id="p", name="P", api_pattern="", pricing_urls=["https://p.example"], models=list(models)
        )
        monkeypatch.setattr(importer, "_snapshot", lambda: [provider])
        return importer.import_sheet(day, providers=["p"], previous=previous)

    return run
