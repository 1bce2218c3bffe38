"""Every hostile agent of the case files, each beside an honest sibling, through the whole product.

ASSIZE_HOSTILE_CASES names another file of the same format. Under runc always, and under runsc where the
engine has it. An expectation that the runner does not know fails its case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.assets.hostile.case_format import Case
    from tests.assets.hostile.case_house import Seen
    from workers.sandbox.client import Engine

pytestmark = pytest.mark.docker

OWN = Path(__file__).parents[2] / "assets" / "hostile" / "agents.json"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "cases" / "hostile_agents.json"
RUNTIMES = ("runc", "runsc")


def files() -> list[Path]:
    """The file that is named, else our own and the one beside the checkout."""
    named = os.environ.get("ASSIZE_HOSTILE_CASES")
    return [Path(named)] if named else [OWN, SHARED]


def read(case_format: ModuleType) -> list[Case]:
    """The cases of every file that is there, each id once: our own come first."""
    found: dict[str, Case] = {}
    for path in files():
        if path.exists() or os.environ.get("ASSIZE_HOSTILE_CASES"):
            for case in case_format.read_cases(path):
                found.setdefault(case.id, case)
    return list(found.values())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per runtime and case."""
    if "case" not in metafunc.fixturenames:
        return
    from hostile_case_format import read_cases  # type: ignore[import-not-found]

    found = []
    for path in files():
        if path.exists():
            found += read_cases(path)
