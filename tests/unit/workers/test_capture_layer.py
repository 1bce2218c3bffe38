"""A dead container's overlay layer, made by hand: changes, members, originals, links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from workers.capture import layer as module
from workers.capture.layer import ADDED, CHANGED, DELETED, LayerUnusableError, OverlayLayer
from workers.capture.members import MAX_DEPTH
from workers.errors import CarryOverflowError


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    (tmp_path / "upper").mkdir()
    return tmp_path / "upper"


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """An image's layer: `/w/old`, `/w/f`, `/etc/conf`, and a link `/run-link` to `/run`."""
    base = tmp_path / "lower"
    for folder in ("w/old", "etc", "run"):
        (base / folder).mkdir(parents=True)
    (base / "w/f").write_text("before")
    (base / "w/old/x").write_text("x")
    (base / "etc/conf").write_text("conf")
    (base / "run-link").symlink_to("/run")
    return base


@pytest.fixture
def overlay(upper: Path, lower: Path) -> OverlayLayer:
    return OverlayLayer(str(upper), (str(lower),))


def whiteout(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, 0)
    except PermissionError:
        pytest.skip("this kernel lets only root make a whiteout")


def opaque(path: Path) -> None:
    try:
        os.setxattr(path, "trusted.overlay.opaque", b"y")
    except OSError:
        pytest.skip("trusted attributes need root and a file system that has them")


def names(overlay: OverlayLayer, path: str) -> list[str]:
    return [member.path for member in overlay.members(path)]


def test_added_changed_deleted(overlay: OverlayLayer, upper: Path) -> None:
    """Folders that were folders before are passed through, not listed."""
    (upper / "w").mkdir()
    (upper / "w/f").write_text("after")
    (upper / "w/new").mkdir()
    (upper / "w/new/y").write_text("y")
    whiteout(upper / "w/old")
    assert sorted(overlay.changes()) == [
        (CHANGED, "/w/f"),
        (ADDED, "/w/new"),
        (ADDED, "/w/new/y"),
        (DELETED, "/w/old"),
    ]


def test_a_folder_in_the_place_of_a_link_or_file_is_listed(overlay: OverlayLayer, upper: Path) -> None:
    """And `was_folder` tells it from a folder that only has new content."""
    (upper / "run-link").mkdir()
    (upper / "run-link/x").write_text("x")
    assert sorted(overlay.changes()) == [(CHANGED, "/run-link"), (ADDED, "/run-link/x")]
    assert not overlay.was_folder("/run-link")
    assert overlay.was_folder("/run") and overlay.was_folder("/nowhere") and not overlay.was_folder("/w/f")


def test_an_emptied_and_remade_folder_deletes_what_it_hides(overlay: OverlayLayer, upper: Path) -> None:
    """`rm -rf d; mkdir d` leaves one attribute instead of whiteouts."""
    (upper / "w/old").mkdir(parents=True)
    opaque(upper / "w/old")
    (upper / "w/old/z").write_text("z")
    assert sorted(overlay.changes()) == [(ADDED, "/w/old/z"), (DELETED, "/w/old/x")]


def test_a_folder_moved_by_reference_is_not_for_this_reader(overlay: OverlayLayer, upper: Path) -> None:
    """Only the merged view knows its content."""
    (upper / "moved").mkdir()
    try:
        os.setxattr(upper / "moved", "trusted.overlay.redirect", b"/w/old")
    except OSError:
        pytest.skip("trusted attributes need root and a file system that has them")
    with pytest.raises(LayerUnusableError):
        overlay.changes()


def test_links_are_told_and_never_followed(overlay: OverlayLayer, upper: Path, tmp_path: Path) -> None:
    """A link in the layer leads, on this host, to a file of the host."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("host secret")
    (upper / "w").symlink_to(secret)
    assert overlay.changes() == [(CHANGED, "/w")]
    assert [(m.info.issym(), m.content) for m in overlay.members("/w")] == [(True, None)]
    assert not overlay.covers("/w/key") and overlay.original("/w/key") is None
    assert overlay.covers("/w")


def test_originals_do_not_go_through_links_of_the_image(overlay: OverlayLayer, lower: Path) -> None:
    """`/run-link/x` is not `/run/x`, and neither is the host's."""
    (lower / "run/x").write_text("x")
    (lower / "host").symlink_to("/etc/hostname")
    assert overlay.original("/run/x") == b"x"
    assert overlay.original("/run-link/x") is None
    assert overlay.original("/host") is None


def test_originals_are_small_regular_files(overlay: OverlayLayer, lower: Path) -> None:
    """Everything else has no original in the diff."""
    os.mkfifo(lower / "pipe")
    (lower / "large").write_bytes(bytes(module.MAX_ORIGINAL_BYTES + 1))
    assert overlay.original("/w/f") == b"before"
    for path in ("/pipe", "/large", "/w", "/none"):
        assert overlay.original(path) is None


def test_higher_layers_hide_lower_ones(upper: Path, lower: Path, tmp_path: Path) -> None:
    """A whiteout or an opaque folder in between ends the search."""
    middle = tmp_path / "middle"
    (middle / "w").mkdir(parents=True)
    (middle / "w/f").write_text("middle")
    overlay = OverlayLayer(str(upper), (str(middle), str(lower)))
    assert overlay.original("/w/f") == b"middle" and overlay.original("/w/old/x") == b"x"
    whiteout(middle / "w/old")
    assert overlay.original("/w/old/x") is None


def test_members_come_parents_first_and_pipes_are_not_opened(overlay: OverlayLayer, upper: Path) -> None:
    """Reading a pipe would wait for a writer that is dead."""
    (upper / "d/b").mkdir(parents=True)
    (upper / "d/b/f").write_text("f")
    (upper / "d/a").write_text("a")
    os.mkfifo(upper / "d/pipe")
    found = {member.path: member for member in overlay.members("/d")}
    assert list(found) == ["/d", "/d/a", "/d/b", "/d/b/f", "/d/pipe"]
    assert found["/d/pipe"].info.isfifo() and found["/d/pipe"].content is None
    assert found["/d/a"].info.size == 1


def test_covers(overlay: OverlayLayer, upper: Path) -> None:
    """A folder that shows the image's content as well cannot be read from here alone."""
    (upper / "w").mkdir()
    (upper / "w/f").write_text("after")
    (upper / "new").mkdir()
    assert overlay.covers("/w/f") and overlay.covers("/new")
    assert not overlay.covers("/w") and not overlay.covers("/etc/conf") and not overlay.covers("/none")


def deep(folder: Path, levels: int) -> None:
    """Deeper than the system takes as one path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_trees_deeper_than_a_path_can_be(overlay: OverlayLayer, upper: Path) -> None:
    """art-names: what is too deep to cross is named once and not entered."""
    deep(upper, 300)
    found = overlay.changes()
    assert 0 < len(found) <= MAX_DEPTH
    assert len(names(overlay, "/" + "d" * 200)) == len(found)


def test_very_many_changes_are_too_many(
    overlay: OverlayLayer, upper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """res-inodes: the list itself must fit into memory and evidence."""
    monkeypatch.setattr(module, "MAX_CHANGES", 50)
    for number in range(60):
        (upper / str(number)).touch()
    with pytest.raises(CarryOverflowError):
        overlay.changes()


def test_names_that_are_no_text(overlay: OverlayLayer, upper: Path) -> None:
    """Bytes come back as they were made."""
    with open(os.fsencode(upper) + b"/a\n\xff", "wb") as file:
        file.write(b"x")
    assert [os.fsencode(path) for _, path in overlay.changes()] == [b"/a\n\xff"]


def inspected(upper: Path, lower: Path, driver: str = "overlay2") -> dict[str, object]:
    return {"GraphDriver": {"Name": driver, "Data": {"UpperDir": str(upper), "LowerDir": str(lower)}}}


def test_which_containers_are_read_this_way(
    upper: Path, lower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another driver, a layer out of sight, or metadata-only copies: the engine is asked instead."""
    off = tmp_path / "metacopy"
    off.write_text("N\n")
    monkeypatch.setattr(module, "_METACOPY", off)
    assert OverlayLayer.of(inspected(upper, lower)) is not None
    assert OverlayLayer.of(inspected(upper, lower, "vfs")) is None
    assert OverlayLayer.of(inspected(upper / "none", lower)) is None
    assert OverlayLayer.of({}) is None
    assert OverlayLayer.of({"GraphDriver": {"Name": "overlay2", "Data": None}}) is None
    off.write_text("Y\n")
    assert OverlayLayer.of(inspected(upper, lower)) is None
    monkeypatch.setattr(module, "_METACOPY", tmp_path / "none")
    assert OverlayLayer.of(inspected(upper, lower)) is None
