"""Attempts of scripted agents through a real relay and a real pod, with a provider on loopback."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """A module of the folder that the tests of relayed attempts share."""
    return importlib.import_module(f"tests.assets.relayed.{name}")


@pytest.fixture(scope="session")
def relayed() -> Callable[[str], ModuleType]:
    """Gives a shared module by its name."""
    return _load


provider = _load("fixtures").provider
house = _load("fixtures").house
short_grace = _load("fixtures").short_grace
