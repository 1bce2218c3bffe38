"""The worker's threads are favoured over what runs in its sandboxes, where the system lets it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workers.sandbox import priority

_CHECK = """
import os, threading
from workers.sandbox.priority import favour_this_process
before, go, seen = threading.Event(), threading.Event(), {}
def old():
    before.set(); go.wait()
    seen["old"] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
thread = threading.Thread(target=old); thread.start(); before.wait()
favour_this_process()
go.set(); thread.join()
def new():
    seen["new"] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
thread = threading.Thread(target=new); thread.start(); thread.join()
print(sorted(seen.items()))
"""


def test_threads_that_were_and_that_will_be() -> None:
    """In a process of its own: it is the whole process that changes."""
    done = subprocess.run(
        [sys.executable, "-c", _CHECK],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    wanted = priority.WORKER_NICE if os.geteuid() == 0 else 0
    assert done.stdout.strip() == str([("new", wanted), ("old", wanted)])


def test_nobody_is_made_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is favoured more already keeps it; a refusal is no error."""
    asked: list[int] = []
    monkeypatch.setattr("os.getpriority", lambda which, who: -20)
    monkeypatch.setattr("os.setpriority", lambda which, who, nice: asked.append(nice))
    priority.favour(threading.get_native_id(), -10)
    assert asked == []

    def refused(which: int, who: int, nice: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.getpriority", lambda which, who: 0)
    monkeypatch.setattr("os.setpriority", refused)
    priority.favour(threading.get_native_id(), -10)
    priority.favour_this_process(Path("/no/such/folder"))
