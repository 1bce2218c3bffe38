"""What a worker starts in processes of its own runs the worker's code, wherever the worker was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.own_python import module_command, module_environment
from workers.sandbox.lookouts import Lookouts, Post

ROOT = Path(__file__).parents[3]


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a stranger's, with modules of the names that are asked for first."""
    for name in ("json", "socket", "workers", "pip"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def test_the_current_folder_is_no_place_for_code(strange: Path) -> None:
    """A clone of a pack must not run as whoever screens it."""
    for name in ("workers.relay", "workers.rehearsal", "workers.capture.lookout"):
        done = subprocess.run(
            module_command(name, "--help"), env=module_environment(["PATH"]), input=b"", capture_output=True
        )
        assert not (strange / "taken").exists() and b"No module" not in done.stderr
    guards = Lookouts()
    guard = guards.post(Post("/nowhere", True, "/nowhere", "/", 1, 1, unseen=False), lambda: None)
    assert guard is not None
    with guard:
        pass
    guards.close()
    assert not (strange / "taken").exists()


def test_own_modules_are_found_where_this_process_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the way to them is no variable, or is told from a folder that was left since."""
    (tmp_path / "ours.py").write_text("print('found')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    environment = module_environment(["PATH"])
    os.chdir(ROOT)
    done = subprocess.run(module_command("ours"), env=environment, capture_output=True, text=True)
    assert done.stdout == "found\n"
