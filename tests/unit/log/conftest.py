"""The generated log files, and where the public vectors are."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "log"
SHARED = Path(os.environ.get("ASSIZE_SHARED") or Path(__file__).resolve().parents[4] / "shared")


def _load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def lab() -> ModuleType:
    """The module with seeded keys, entries and logs."""
    return _load("log_world", ASSETS / "log_world.py")


@pytest.fixture(scope="session")
def generator(lab: ModuleType) -> ModuleType:
    """The module that makes the named files."""
    return _load("log_cases", ASSETS / "build.py")


@pytest.fixture
def vectors() -> Callable[[str], Path]:
    """A public vector file or folder by its path below `vectors`; skips the test where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / "vectors" / name
        if not path.exists():
            pytest.skip(f"the public vectors are not here (ASSIZE_SHARED): {name}")
        return path

    return find


@pytest.fixture(scope="session")
def crash(lab: ModuleType) -> ModuleType:
    """The module with the disks that fail."""
    return _load("crash_disk", ASSETS / "crash_disk.py")
