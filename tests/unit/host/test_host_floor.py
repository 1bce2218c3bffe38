"""Below the floor of free space no more tries are started; the disk is part of the hardware."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.attempts import DiskTerms
from orchestrator.engine.errors import HostUnfitError
from orchestrator.planning.conditions import DiskCondition, ScreeningConditions, screening_identity
from orchestrator.screenings import floor


def disk(monkeypatch: pytest.MonkeyPatch, *, free: int, files: int, left: int) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1, f_files=files, f_favail=left)
    monkeypatch.setattr(os, "statvfs", lambda folder: found)


def test_room_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the number of files is not fixed, and where nobody can ask."""
    disk(monkeypatch, free=floor.FLOOR_BYTES, files=0, left=0)
    floor.require_floor([Path("/x")])
    monkeypatch.undo()
    floor.require_floor([Path("/no/such/folder")])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"free": floor.FLOOR_BYTES - 1, "files": 10**9, "left": 10**9}, "999 MB left at /x"),
        ({"free": 1 << 50, "files": 10**9, "left": 9_999}, "room for 9999 files left at /x"),
    ],
)
def test_too_little_room(monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], word: str) -> None:
    """sandbox.md 1.3: the floor stops admission, and says what to do."""
    disk(monkeypatch, **changes)
    with pytest.raises(HostUnfitError, match=word) as caught:
        floor.require_floor([Path("/x")])
    assert caught.value.hint == "free some space; the same command resumes"


def conditions(**changes: Any) -> ScreeningConditions:
    return ScreeningConditions(hardware_class="cpu2-mem8g", **changes)


def identity(one: ScreeningConditions) -> str:
    return screening_identity(one, pack_digest="p", agent_digest="a", requester="r", funder="f")


def test_the_usual_disk_leaves_a_screening_what_it_was() -> None:
    """A home resumes screenings from before there was a choice; another disk is another screening."""
    usual = conditions()
    assert "disk" not in usual.as_data() and usual.published_hardware == "cpu2-mem8g"
    other = conditions(disk=DiskCondition(mode="strict", bytes=1 << 25, files=2000))
    assert other.as_data()["disk"] == {"mode": "strict", "bytes": 1 << 25, "files": 2000}
    assert identity(usual) != identity(other)
    assert other.published_hardware == "cpu2-mem8g-disk-strict-33554432-2000"
    assert DiskTerms(**DiskCondition().model_dump()) == DiskTerms()


@pytest.mark.parametrize("bad", [{"mode": "none"}, {"bytes": 0}, {"files": -1}, {"size": 1}])
def test_disks_that_are_none(bad: dict[str, Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValidationError):
        DiskCondition(**bad)
