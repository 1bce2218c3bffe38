"""Hostile agents with a way to a real relay; the provider behind it is on loopback."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ASSETS = Path(__file__).parents[2] / "assets" / "relayed"


def _load(name: str) -> ModuleType:
    """A module of the folder that the tests of relayed attempts share."""
    full = f"relayed_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, ASSETS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def relayed() -> Callable[[str], ModuleType]:
    """Gives a shared module by its name."""
    return _load


provider = _load("fixtures").provider
house = _load("fixtures").house
