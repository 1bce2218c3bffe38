"""Every hostile agent of the case files, each beside an honest sibling, through the whole product.

ASSIZE_HOSTILE_CASES names another file of the same format. Under runc always, and under runsc where the
engine has it. An expectation that the runner does not know fails its case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docker

ASSETS = Path(__file__).parents[2] / "assets" / "hostile"
_SHARED = Path(__file__).resolve().parents[4] / "shared" / "cases" / "hostile_agents.json"
RUNTIMES = ("runc", "runsc")


def files() -> list[Path]:
    """The file that is named, else the one beside the checkout and our own."""
    named = os.environ.get("ASSIZE_HOSTILE_CASES")
    return [Path(named)] if named else [_SHARED, ASSETS / "agents.json"]
