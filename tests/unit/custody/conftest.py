"""Labs in real homes, and the disks that stop a program at any file operation."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.assets.services.databases import copy_home

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def _load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    """The module that makes labs."""
    return _load("custody_world", ASSETS / "custody" / "custody_world.py")


@pytest.fixture(scope="session")
def crash() -> ModuleType:
    """The disks of the log's own crash tests."""
    return _load("crash_disk", ASSETS / "log" / "crash_disk.py")


@pytest.fixture(scope="session")
def founded(worlds: ModuleType, tmp_path_factory: pytest.TempPathFactory, databases: str) -> Any:
    """A lab whose keys were made on first use, with two screenings (`one`, `two`) that ran; to be copied."""
    folder = tmp_path_factory.mktemp("custody")
    lab = worlds.Lab(folder / "home", worlds.make_pack(folder / "pack"))
    installation = worlds.Installation.open(lab.home)
    installation.trust_root()
    installation.close()
    lab.screenings = [lab.screening("one"), lab.screening("two")]
    return lab


@pytest.fixture
def make_lab(founded: Any, worlds: ModuleType, tmp_path: Path) -> Callable[[str], Any]:
    """Copies of that lab; its passphrase is the user's, so a copy on this machine can sign."""

    def make(name: str = "home") -> Any:
        copy_home(founded.home.root, tmp_path / name)
        lab = worlds.Lab(tmp_path / name, founded.pack)
        lab.screenings = founded.screenings
        return lab

    return make


@pytest.fixture
def lab(make_lab: Callable[[str], Any]) -> Any:
    """One such copy."""
    return make_lab("home")
