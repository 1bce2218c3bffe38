"""Files without a name: found by their open handles and mappings, each once, on the right disk only."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from workers.capture import unlinked as module
from workers.capture.unlinked import BEYOND_COUNT, device_of, unlinked_bytes

MIB = 1 << 20


def here(folder: Path) -> frozenset[int]:
    found = device_of(str(folder))
    assert found is not None
    return frozenset({found})


def test_open_files_without_a_name_count_once(tmp_path: Path) -> None:
    """Two handles are one file; a file with a name is found by the walk over the layer."""
    # Other tests of this process may have such files too.
    before = unlinked_bytes([os.getpid()], here(tmp_path))
    named, nameless = (tmp_path / "named").open("wb"), (tmp_path / "gone").open("wb")
    with named, nameless:
        for file in (named, nameless):
            file.write(b"x" * MIB)
            file.flush()
        os.unlink(nameless.name)
        again = os.dup(nameless.fileno())
        try:
            found = unlinked_bytes([os.getpid()], here(tmp_path))
            assert MIB <= found - before < 2 * MIB
            assert unlinked_bytes([os.getpid()], frozenset({-1})) == 0, "of another disk"
        finally:
            os.close(again)
    assert unlinked_bytes([os.getpid()], here(tmp_path)) == before


def test_mapped_files_without_a_name_or_handle(tmp_path: Path) -> None:
    """A mapping alone keeps a file alive."""
    path = tmp_path / "mapped"
    with path.open("w+b") as file:
        file.truncate(MIB)
        with mmap.mmap(file.fileno(), MIB) as held:
            file.close()
            path.unlink()
            held[:] = b"x" * MIB
            assert unlinked_bytes([os.getpid()], here(tmp_path)) >= MIB


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    """Nothing is raised for what ended meanwhile."""
    assert unlinked_bytes([1 << 30], here(tmp_path)) == 0
    assert device_of(str(tmp_path / "none")) is None


def test_more_handles_than_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody holds the guard up for ever, or hides a file behind a million others."""
    places = [tmp_path / str(pid) / "fd" for pid in (1, 2)]
    for place in places:
        place.mkdir(parents=True)
        for number in range(5):
            (place / str(number)).touch()
    monkeypatch.setattr(module, "MOST_LOOKS", 10)
    assert unlinked_bytes([1, 2], here(tmp_path), tmp_path) == 0
    (places[1] / "one more").touch()
    assert unlinked_bytes([1, 2], here(tmp_path), tmp_path) == BEYOND_COUNT
