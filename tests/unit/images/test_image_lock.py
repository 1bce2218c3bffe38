"""The image lock: strict reading, atomic writing, no lost entry under concurrency."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_images.errors import ImageLockError
from sandbox_images.lock import ImageLock, LockedImage, parse_lock, render_lock

LOCKS = Path(__file__).parents[2] / "assets" / "images" / "locks"
IMAGE = LockedImage("sha256:" + "1" * 64, "build", "", "2025-01-01T00:00:00Z", "amd64")


def test_round_trip(tmp_path: Path) -> None:
    lock = ImageLock(tmp_path / "deep" / "images.lock.json")
    assert lock.entries() == {}
    lock.record("b:1", IMAGE)
    lock.record("a:1", dataclasses.replace(IMAGE, source="registry"))
    assert list(lock.entries()) == ["a:1", "b:1"]
    assert lock.get("b:1") == IMAGE
    assert parse_lock(render_lock(lock.entries())) == lock.entries()


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.json")), ids=lambda path: path.stem)
def test_bad_locks_are_refused_and_say_what_to_do(tmp_path: Path, path: Path) -> None:
    """A lock that is not exactly what it must be pins nothing: refuse it, do not guess."""
    copy = tmp_path / "images.lock.json"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(ImageLockError) as caught:
        ImageLock(copy).entries()
    assert caught.value.hint
    with pytest.raises(ImageLockError):
        ImageLock(copy).record("x:1", IMAGE)
    assert copy.read_bytes() == path.read_bytes()


def test_a_write_that_fails_leaves_the_old_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = ImageLock(tmp_path / "images.lock.json")
    lock.record("a:1", IMAGE)
    before = lock.path.read_bytes()

    def broken(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="No space"):
        lock.record("b:1", IMAGE)
    assert lock.path.read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))


RECORD_MANY = """
import sys
from pathlib import Path
from sandbox_images.lock import ImageLock, LockedImage
lock = ImageLock(Path(sys.argv[1]))
for number in range(15):
    lock.record(f"w{sys.argv[2]}:{number}", LockedImage("sha256:" + "1" * 64, "build", "", "", "amd64"))
    lock.entries()
"""


def test_no_entry_is_lost_between_processes(tmp_path: Path) -> None:
    """Four processes write at once and read in between: every read parses, every entry is there."""
    path = tmp_path / "images.lock.json"
    commands = [[sys.executable, "-c", RECORD_MANY, str(path), str(number)] for number in range(4)]
    workers = [subprocess.Popen(command) for command in commands]
    assert [worker.wait() for worker in workers] == [0, 0, 0, 0]
    assert len(ImageLock(path).entries()) == 60
