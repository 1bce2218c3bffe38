"""A dead container with a volume over its workspace, made by hand: changes, members, links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.capture import mounted as module
from workers.capture.layer import ADDED, CHANGED, DELETED, OverlayLayer
from workers.capture.mounted import MountedLayer
from workers.errors import CarryOverflowError


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """The workspace's volume, as the engine copied it from the image."""
    place = tmp_path / "volume"
    (place / "old").mkdir(parents=True)
    (place / "f").write_text("before")
    (place / "old" / "x").write_text("x")
    (place / "link").symlink_to("f")
    return place


@pytest.fixture
def layer(tmp_path: Path, volume: Path) -> MountedLayer:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    (lower / "w" / "old").mkdir(parents=True)
    (lower / "w" / "f").write_text("before")
    (lower / "w" / "old" / "x").write_text("x")
    (lower / "w" / "link").symlink_to("f")
    (upper / "w").mkdir(parents=True)
    return MountedLayer(OverlayLayer(str(upper), (str(lower),)), {"/w": str(volume)})


def test_a_copy_of_the_image_is_no_change(layer: MountedLayer) -> None:
    """The engine fills an empty volume with what the image has there."""
    assert layer.changes() == []


def test_every_difference_is_listed(layer: MountedLayer, volume: Path) -> None:
    """Content, kind, mode and target of a link; what is gone; the inside of new folders."""
    (volume / "f").write_text("after!")
    (volume / "old" / "x").chmod(0o600)
    (volume / "link").unlink()
    (volume / "link").symlink_to("old")
    (volume / "new" / "deep").mkdir(parents=True)
    (volume / "new" / "deep" / "y").write_text("y")
    assert sorted(layer.changes(), key=lambda one: one[1]) == [
        (CHANGED, "/w/f"),
        (CHANGED, "/w/link"),
        (ADDED, "/w/new"),
        (ADDED, "/w/new/deep"),
        (ADDED, "/w/new/deep/y"),
        (CHANGED, "/w/old/x"),
    ]


def test_the_same_length_and_time_is_not_the_same(layer: MountedLayer, volume: Path) -> None:
    """An agent may set any time; content is compared."""
    before = os.stat(volume / "f")
    (volume / "f").write_text("behind")
    os.utime(volume / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert layer.changes() == [(CHANGED, "/w/f")]


def test_deletions_and_replaced_kinds(layer: MountedLayer, volume: Path) -> None:
    """A folder where a file was, and the other way round."""
    (volume / "f").unlink()
    (volume / "f").mkdir()
    (volume / "old" / "x").unlink()
    (volume / "old").rmdir()
    (volume / "old").write_text("no folder")
    (volume / "link").unlink()
    assert sorted(layer.changes(), key=lambda one: one[1]) == [
        (CHANGED, "/w/f"),
        (DELETED, "/w/link"),
        (CHANGED, "/w/old"),
    ]


def test_members_come_from_the_volume(layer: MountedLayer, volume: Path, tmp_path: Path) -> None:
    """Links are read as links, also one in the place of a folder on the way."""
    (volume / "old" / "x").write_text("changed")
    found = {one.path: (one.info.isdir(), one.info.issym()) for one in layer.members("/w")}
    assert found["/w/old/x"] == (False, False) and found["/w/link"] == (False, True)
    (one,) = (one for one in layer.members("/w/old/x") if one.content is not None)
    assert one.path == "/w/old/x"
    assert layer.covers("/w") and layer.covers("/w/old/x") and not layer.covers("/w/absent")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "y").write_text("secret")
    (volume / "way").symlink_to(tmp_path / "secret")
    assert not layer.covers("/w/way/y")


def test_names_that_begin_alike_are_not_in_the_volume(layer: MountedLayer) -> None:
    """`/w2` is no part of `/w`."""
    assert layer.place_of("/w2/x").endswith("/upper/w2/x")
    assert layer.place_of("/w/x").endswith("/volume/x") and layer.place_of("/w").endswith("/volume")


def test_too_many_changes(layer: MountedLayer, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list itself is bounded."""
    monkeypatch.setattr(module, "MAX_CHANGES", 5)
    for number in range(10):
        (volume / f"n{number}").write_text("")
    with pytest.raises(CarryOverflowError):
        layer.changes()


def test_what_a_layer_holds(tmp_path: Path) -> None:
    """Blocks and files as they are, a sparse file by what it really takes, a link not followed."""
    upper = tmp_path / "up"
    (upper / "a").mkdir(parents=True)
    (upper / "a" / "f").write_bytes(b"x" * 8192)
    with (upper / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (upper / "link").symlink_to("/usr")
    used, files = OverlayLayer(str(upper), ()).written()
    assert files == 4 and 8192 <= used < 1 << 20


def test_a_layer_is_weighed_where_no_path_reaches(tmp_path: Path) -> None:
    """A folder too deep for one path is no place to write in unseen; no descriptor stays open."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    for name in ("f", "g"):
        with open(name, "wb", opener=lambda path, flags: os.open(path, flags, dir_fd=here)) as file:
            file.write(b"x" * 65_536)
    os.close(here)
    (tmp_path / "link").symlink_to("/usr")
    before = len(os.listdir("/proc/self/fd"))
    used, files = OverlayLayer(str(tmp_path), ()).written()
    assert files == 43 and used >= 131_072
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_layer_with_too_many_files_is_not_read_to_its_end(tmp_path: Path) -> None:
    """How long an agent is held still does not grow with what it makes."""
    for number in range(30):
        (tmp_path / f"n{number % 3}" / f"m{number}").mkdir(parents=True)
    layer = OverlayLayer(str(tmp_path), ())
    assert layer.written(7)[1] == 8 and layer.written(32)[1] == 33 == layer.written()[1]
    assert OverlayLayer(str(tmp_path / "gone"), ()).written() == (0, 0)
