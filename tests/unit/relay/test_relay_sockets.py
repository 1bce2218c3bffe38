"""The folder of a relay's sockets: its life is that of its worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workers.relay import sockets

HOLDER = (
    "import sys, pathlib; from workers.relay.sockets import socket_folder\n"
    "with socket_folder(pathlib.Path(sys.argv[1])) as folder:\n"
    "    (folder / 'lane').mkdir(); (folder / 'lane' / 'relay.sock').touch()\n"
    "    print(folder, flush=True); sys.stdin.read()\n"
)


def _holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a folder below `parent`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def test_the_name_carries_the_pid_and_leaves_room_for_an_address() -> None:
    """107 bytes is all that the address of a Unix socket may have."""
    with sockets.socket_folder() as folder:
        assert folder.name.startswith(f"assize-relay-{os.getpid()}-")
        assert len(os.fsencode(folder / ("0" * 16) / "relay.sock")) <= 107
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_a_worker_in_a_container_has_its_folder_where_the_engine_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine mounts sockets by their path on its own host: the variable names a folder that both have."""
    monkeypatch.setenv("ASSIZE_SOCKET_FOLDER", str(tmp_path))
    with sockets.socket_folder() as folder:
        assert folder.parent == tmp_path
    left = tmp_path / "assize-relay-1-0011aabb"
    left.mkdir()
    assert sockets.reap() == [left]


def test_only_folders_of_dead_workers_are_removed(tmp_path: Path) -> None:
    """A worker that was killed leaves its folder to the next one; that of a living worker is kept."""
    living, kept = _holder(tmp_path)
    dead, left = _holder(tmp_path)
    assert sockets.reap([tmp_path]) == [], "both live"
    dead.send_signal(signal.SIGKILL)
    _end(dead)
    assert sockets.reap([tmp_path]) == [left]
    assert (kept / "lane" / "relay.sock").exists() and not left.exists()
    _end(living)
    assert not kept.exists() and sockets.reap([tmp_path]) == []


def test_a_pid_that_somebody_else_has_by_now_protects_nothing(tmp_path: Path) -> None:
    """The lock tells, not the number: this process's own number on a folder that it has not locked."""
    stale = tmp_path / f"assize-relay-{os.getpid()}-0011aabb"
    stale.mkdir()
    assert sockets.reap([tmp_path]) == [stale]


def test_what_is_no_such_folder_is_left_alone(tmp_path: Path) -> None:
    """Other names, files and links are nobody's to remove, and a parent that is missing is no error."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "assize-relay-12-ab").symlink_to(target)
    (tmp_path / "assize-relay-13-cd").write_text("a file")
    (tmp_path / "assize-relay-mine").mkdir()
    assert sockets.reap([tmp_path, tmp_path / "missing"]) == []
    assert len(list(tmp_path.iterdir())) == 4
