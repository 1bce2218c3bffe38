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


_REAL_TIME = """
import os, subprocess, threading
from workers.sandbox.priority import favour_guard
seen = []
def guard():
    me = threading.get_native_id()
    favour_guard(me)
    seen.append(os.sched_getscheduler(me) & ~os.SCHED_RESET_ON_FORK)
    seen.append(os.getpriority(os.PRIO_PROCESS, me))
    asks = "import os; print(os.sched_getscheduler(0))"
    seen.append(int(subprocess.run([__import__("sys").executable, "-c", asks], capture_output=True).stdout))
thread = threading.Thread(target=guard); thread.start(); thread.join()
print(*seen)
"""


def test_a_guard_is_real_time_or_else_favoured() -> None:
    """One of both for whoever may have it, and nothing that a guard starts is real-time."""
    where = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _REAL_TIME], capture_output=True, text=True, cwd=where, check=True
    )
    policy, nice, of_a_child = (int(word) for word in done.stdout.split())
    assert of_a_child == os.SCHED_OTHER
    if os.geteuid() == 0:
        assert policy == os.SCHED_RR or nice == priority.GUARD_NICE
    else:
        assert (policy, nice) == (os.SCHED_OTHER, 0)


def test_a_guard_that_may_not_be_real_time_is_favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container without that right, or under a kernel that gives groups no such time."""

    def refused(thread: int, policy: int, param: object) -> None:
        raise PermissionError

    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("os.sched_setscheduler", refused)
    monkeypatch.setattr(priority, "favour", lambda thread, nice: asked.append((thread, nice)))
    priority.favour_guard(7)
    assert asked == [(7, priority.GUARD_NICE)]
