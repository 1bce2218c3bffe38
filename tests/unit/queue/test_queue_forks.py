"""A pool that forks beside a thread that uses the database: nothing of it is open or held at a fork."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from orchestrator.engine.celery.forks import ForkGuard
from orchestrator.ledger import queries
from orchestrator.ledger.migrate import open_ledger


def files_of(process: str) -> list[str]:
    """What the descriptors of a process lead to."""
    folder = Path("/proc") / process / "fd"
    return [os.readlink(folder / name) for name in os.listdir(folder) if (folder / name).is_symlink()]


def forked(check: str) -> int:
    """Exit code of a child: 1 if it has a file of this name open."""
    child = os.fork()
    if child == 0:
        os._exit(any(check in name for name in files_of(str(os.getpid()))))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.only_on("sqlite", "what a child must not inherit is an open file")
@pytest.mark.parametrize("closes", [True, False])
def test_no_connection_is_open_at_a_fork(tmp_path: Path, closes: bool) -> None:
    """SQLite believes to hold what its parent held; without the guard the child has the file open."""
    ledger, guard = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}"), ForkGuard()
    assert queries.screenings(ledger) == []
    guard.before_fork = ledger.close if closes else lambda: None
    try:
        assert forked("ledger.db") == (not closes)
        assert queries.screenings(ledger) == [], "the parent goes on"
    finally:
        guard.before_fork = lambda: None
        ledger.close()


def test_a_fork_waits_for_the_end_of_a_step() -> None:
    """The order of what happened: the step, the fork, the next step."""
    guard, seen, inside, leave = ForkGuard(), list[str](), threading.Event(), threading.Event()
    guard.before_fork = lambda: seen.append("fork")

    def step() -> None:
        with guard.held():
            inside.set()
            leave.wait(30)
            seen.append("step")

    thread = threading.Thread(target=step)
    thread.start()
    assert inside.wait(30)
    threading.Timer(0.1, leave.set).start()
    try:
        forked("nothing")
    finally:
        guard.before_fork = lambda: None
    thread.join()
    assert seen == ["step", "fork"]


def test_a_fork_does_not_wait_for_ever() -> None:
    """An engine that does not answer must not stop the pool; the guard works on afterwards."""
    guard, inside, leave = ForkGuard(wait_s=0.05), threading.Event(), threading.Event()

    def step() -> None:
        with guard.held():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=step)
    thread.start()
    assert inside.wait(30)
    assert forked("nothing") == 0 and not leave.is_set()
    leave.set()
    thread.join()
    assert forked("nothing") == 0
    with guard.held():
        pass
