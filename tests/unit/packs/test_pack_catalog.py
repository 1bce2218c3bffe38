"""Finding packs by name, name@version or path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import NotFoundError
from orchestrator.home import Home
from orchestrator.packs.catalog import list_packs, resolve
from orchestrator.packs.freeze import freeze

TOML = """
name = "{name}"
version = "{version}"
title = "T"
licenses = ["MIT"]
[[tasks]]
id = "t"
path = "t"
"""


@pytest.fixture
def places(make_task: Callable[..., Path], tmp_path: Path) -> tuple[Home, Path]:
    """A home with `core` 1 and 2 and a broken pack, and a bundled folder with `other` 1."""

    def pack(folder: str, name: str, version: str) -> None:
        make_task(name=f"{folder}/t")
        (tmp_path / folder / "pack.toml").write_text(TOML.format(name=name, version=version))
        freeze(tmp_path / folder)

    pack("home/packs/core1", "core", "1")
    pack("home/packs/core2", "core", "2")
    pack("bundled/other", "other", "1")
    (tmp_path / "home/packs/broken").mkdir()
    (tmp_path / "home/packs/broken/pack.toml").write_text("colour = 1\n")
    return Home(tmp_path / "home"), tmp_path / "bundled"


def test_all_places_are_listed_and_broken_packs_say_why(places: tuple[Home, Path]) -> None:
    """Bundled first; a broken pack does not hide the others."""
    home, bundled = places
    found = list_packs(home, bundled=bundled)
    assert [(ref.label, ref.origin) for ref in found] == [
        ("other@1", "bundled"),
        ("broken", "home"),
        ("core@1", "home"),
        ("core@2", "home"),
    ]
    assert found[1].problem is not None and "colour is not a known key" in found[1].problem


def test_names_versions_and_paths_resolve(places: tuple[Home, Path], make_task: Callable[..., Path]) -> None:
    """A name, name@version, a pack folder, a bare task folder, a task.toml."""
    home, bundled = places
    assert resolve(home, "other", bundled=bundled).load().label == "other@1"
    assert resolve(home, "core@2", bundled=bundled).load().label == "core@2"
    assert resolve(home, str(bundled / "other"), bundled=bundled).label == "other@1"
    task = make_task(name="bare")
    assert resolve(home, str(task), bundled=bundled).load().implicit
    assert resolve(home, str(task / "task.toml"), bundled=bundled).path == task


def test_unknown_and_ambiguous_names(places: tuple[Home, Path]) -> None:
    """Close matches are offered; several matches are listed with the way to tell them apart."""
    home, bundled = places
    with pytest.raises(NotFoundError, match="no pack and no folder is called othr") as caught:
        resolve(home, "othr", bundled=bundled)
    assert caught.value.hint == "did you mean other or other@1?"
    with pytest.raises(NotFoundError, match=r"core means several packs: core@1 .*, core@2") as caught:
        resolve(home, "core", bundled=bundled)
    assert caught.value.hint is not None and "name@version" in caught.value.hint
    with pytest.raises(NotFoundError) as caught:
        resolve(home, "zzzzzz", bundled=bundled)
    assert caught.value.hint is not None and "packs list" in caught.value.hint


def test_an_empty_home_has_only_bundled_packs(tmp_path: Path) -> None:
    """A missing folder is not an error."""
    assert list_packs(Home(tmp_path / "none"), bundled=tmp_path / "none") == []
