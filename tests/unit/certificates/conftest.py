"""The generated certificate files, and a small lab with seeded keys."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "certificates"
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
    """The module with the seeded lab."""
    return _load("certificate_world", ASSETS / "certificate_world.py")


@pytest.fixture(scope="session")
def tape() -> ModuleType:
    """The module that makes relay transcripts."""
    return _load("certificate_transcript", ASSETS / "certificate_transcript.py")


@pytest.fixture(scope="session")
def generator(lab: ModuleType) -> ModuleType:
    """The module that makes the files."""
    return _load("certificate_cases", ASSETS / "build.py")


@pytest.fixture(scope="session")
def case_files(generator: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every generated file; read only."""
    folder = tmp_path_factory.mktemp("certificates") / "cases"
    generator.build(folder)
    return folder


@pytest.fixture
def world(lab: ModuleType, tmp_path: Path) -> Any:
    """A fresh lab with its own evidence store."""
    return lab.World(tmp_path / "store")


@pytest.fixture
def vectors() -> Callable[[str], Path]:
    """A public vector file by its path below `vectors`; skips the test where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / "vectors" / name
        if not path.exists():
            pytest.skip(f"the public vectors are not here (ASSIZE_SHARED): {name}")
        return path

    return find
