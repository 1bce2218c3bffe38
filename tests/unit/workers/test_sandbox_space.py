"""Sized places and loop devices, as far as no engine is needed: names, refusals, what is enforced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.errors import SandboxMismatchError
from workers.sandbox import loop, space
from workers.sandbox.tars import Owner

OWNER = Owner(1000, 1000)
LABELS = {"assize.home": "0f3a-b_c", "assize.attempt": "01ABC/12"}


@pytest.mark.parametrize("workdir", ["/", "", "//", "/assize", "/assize/home", "/logs/x", "/proc/1", "/dev"])
def test_places_that_cannot_be_a_workspace(workdir: str) -> None:
    """The root cannot be a volume, and our own folders are places already."""
    with pytest.raises(space.SpaceError):
        space._require_workspace(workdir)


@pytest.mark.parametrize("workdir", ["/workspace", "/tmp", "/root", "/logs-of-mine", "/assizes", "/app/src"])
def test_places_that_can(workdir: str) -> None:
    """Names that only begin alike are other folders."""
    space._require_workspace(workdir)


def test_temporary_folders() -> None:
    """Small, without devices or set-id, nothing in them is run; none hides the workspace."""
    found = space.temporary_of("/tmp")
    assert set(found) == {"/var/tmp", "/run"}
    assert all("nosuid,nodev,noexec" in options and "size=" in options for options in found.values())
    assert "/tmp" in space.temporary_of("/workspace")


def test_a_place_that_is_no_file_system_of_its_own_is_noticed(tmp_path: Path) -> None:
    """An engine that made a plain folder of it would enforce nothing."""
    outside = os.stat(tmp_path).st_dev
    found = os.statvfs(tmp_path)
    size, files = found.f_blocks * found.f_frsize, found.f_files
    with pytest.raises(SandboxMismatchError):
        space._enforced(str(tmp_path), outside, size, files)
    with pytest.raises(SandboxMismatchError):
        space._enforced(str(tmp_path), None, size, files)
    other = outside + 1
    assert space._enforced(str(tmp_path), other, size, files) == outside
    with pytest.raises(SandboxMismatchError):
        space._enforced(str(tmp_path), other, size // 2, files)
    with pytest.raises(space.SpaceError):
        space._enforced(str(tmp_path / "absent"), other, size, files)


def test_a_loop_file_names_its_attempt() -> None:
    """What `kill -9` leaves is recognised by the kernel's own list; foreign files are not ours."""
    name = loop.file_name(LABELS)
    assert loop.attempt_of(name) == ("0f3a-b_c", "01ABC/12")
    for foreign in ("disk.img", "assize-x.img", "assize-x+y.img", f"{name}.bak", "assize-a+b/c+1.img"):
        assert loop.attempt_of(foreign) is None


def test_devices_in_use_are_read_from_the_kernel(tmp_path: Path) -> None:
    """A file without a name any more is marked by the kernel; a free device has no entry."""
    for number, text in ((0, "/x/a.img\n"), (3, "/x/b.img (deleted)\n")):
        folder = tmp_path / f"loop{number}" / "loop"
        folder.mkdir(parents=True)
        (folder / "backing_file").write_text(text)
    (tmp_path / "loop7").mkdir()
    assert loop.held_files(tmp_path) == {"/dev/loop0": "/x/a.img", "/dev/loop3": "/x/b.img"}


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the file of the file system does not stay."""
    monkeypatch.setattr(loop, "_SBIN", str(tmp_path))
    with pytest.raises(loop.LoopError, match=r"mkfs\.ext4 is not installed"):
        loop.LoopDevice.make(tmp_path / "x.img", 1 << 20, 100, OWNER)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_already_is_not_taken(tmp_path: Path) -> None:
    """Two attempts never share a disk."""
    (tmp_path / "x.img").write_text("kept")
    with pytest.raises(loop.LoopError):
        loop.LoopDevice.make(tmp_path / "x.img", 1 << 20, 100, OWNER)
    assert (tmp_path / "x.img").read_text() == "kept"
