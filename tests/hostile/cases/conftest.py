"""The suite of hostile agents as data: modules of tests/assets/hostile, and one run for all its cases."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ASSETS = Path(__file__).parents[2] / "assets"


def _load(family: str, name: str) -> ModuleType:
    """A module of an assets folder; loaded once, under a name by which its neighbours find it."""
    full = f"{family}_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, ASSETS / family / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


PROVIDER, _ = _load("relayed", "provider"), _load("relayed", "house")
FORMAT, HOUSE, RULES = (_load("hostile", f"case_{name}") for name in ("format", "house", "rules"))


@pytest.fixture(scope="session")
def case_format() -> ModuleType:
    """The reader of case files."""
    return FORMAT


@pytest.fixture(scope="session")
def case_rules() -> ModuleType:
    """The judge of what was seen."""
    return RULES


@pytest.fixture(scope="session")
def case_house() -> ModuleType:
    """What runs cases."""
    return HOUSE


@pytest.fixture(scope="session")
def provider_house() -> ModuleType:
    """The provider on loopback."""
    return PROVIDER
