"""Guards in processes of their own: what is said over a line, and that nobody is lost or left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from workers.errors import EngineCallError
from workers.sandbox import lookouts
from workers.sandbox.lookouts import BYE, DONE, FAILED, MARK, OVER, UP, Lookouts, Post, PostedGuard

MIB = 1 << 20
ROOT = Path(__file__).parents[3]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    """A container of files: its cgroup, and its layer, which may hold a megabyte."""
    cgroup, upper = tmp_path / "cgroup", tmp_path / "upper"
    cgroup.mkdir()
    upper.mkdir()
    (cgroup / "freezer.state").write_text("THAWED")
    (cgroup / "cgroup.procs").write_text("")
    return Post(str(cgroup), True, str(upper), str(tmp_path), MIB, 100, unseen=False)


@pytest.fixture
def posts() -> Iterator[Lookouts]:
    made = Lookouts()
    yield made
    made.close()


def line_of(post: Post, convicted: Callable[[], None] = lambda: None) -> tuple[PostedGuard, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return PostedGuard(ours, post, convicted), theirs


def until(met: Callable[[], bool]) -> None:
    """Waits for something that must come; a machine may be slow."""
    end = time.monotonic() + 60
    while not met():
        assert time.monotonic() < end, "it never came"


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_conviction_is_heard_before_its_end(post: Post) -> None:
    """Our kill must be told as ours: the word is sent first, and is there when the line has broken."""
    told: list[bool] = []
    guard, theirs = line_of(post, lambda: told.append(True))
    with guard:
        assert not guard.over() and not told
        theirs.send(OVER)
        theirs.close()
        assert guard.over() and guard.over() and told == [True]
        with guard.command(lambda: True):
            pass
    told.clear()
    guard, theirs = line_of(post, lambda: told.append(True))
    with guard, theirs:
        theirs.send(OVER)
        theirs.close()
    assert told == [True], "also when nobody asked any more"


def test_a_failed_measurement_is_no_conviction(post: Post) -> None:
    """Trouble of the host's: raised whenever the guard is asked."""
    guard, theirs = line_of(post)
    with guard, theirs:
        theirs.send(FAILED + b"slow")
        for _ in range(2):
            with pytest.raises(EngineCallError, match="slow"):
                guard.over()


def test_a_guard_that_is_lost_is_told_and_lets_go(post: Post) -> None:
    """Nobody runs without a guard, and nothing stays frozen."""
    guard, theirs = line_of(post)
    switch = Path(post.freezer) / "freezer.state"
    switch.write_text("FROZEN")
    with guard:
        theirs.close()
        with pytest.raises(EngineCallError, match="GuardLost"):
            guard.over()
        with pytest.raises(EngineCallError, match="GuardLost"), guard.command(lambda: True):
            raise AssertionError("no command is started then")
    assert switch.read_text() == "THAWED"


def test_the_worker_answers_once_the_command_is_up(post: Post) -> None:
    """Where the host shows no process of it, the engine is asked, and not before the guard asks."""
    guard, theirs = line_of(post)
    states = iter([False, True])
    with guard, theirs:
        theirs.send(MARK)
        with guard.command(lambda: next(states)):
            assert theirs.recv(99) == MARK and not guard.over()
            theirs.send(UP)
            assert not guard.over() and not guard.over()
            assert theirs.recv(99) == UP and next(states, None) is None
        assert theirs.recv(99) == DONE


def test_what_holds_too_much_is_killed(post: Post, posts: Lookouts) -> None:
    """The whole way: posted, a command begun and seen, frozen, measured, killed, and only what came later."""
    spared = subprocess.Popen(["sleep", "1000"])
    procs = Path(post.freezer) / "cgroup.procs"
    procs.write_text(f"{spared.pid}\n")
    told: list[bool] = []
    guard = posts.post(post, lambda: told.append(True))
    assert guard is not None
    with spared, guard:
        with guard.command(lambda: False):
            agents = subprocess.Popen(["sleep", "1000"])
            procs.write_text(f"{spared.pid}\n{agents.pid}\n")
            (Path(post.upper) / "f").write_bytes(b"x" * 2 * MIB)
            assert agents.wait(60) == -signal.SIGKILL
            until(guard.over)
        assert told == [True] and spared.poll() is None
        spared.kill()
    assert (Path(post.freezer) / "freezer.state").read_text() == "THAWED"


def test_an_innocent_goes_on_and_many_are_guarded_at_once(post: Post, posts: Lookouts) -> None:
    """Each has a process and a line of its own; a hang-up ends one and no other."""
    (Path(post.upper) / "f").write_bytes(b"x" * 1000)
    found = [posts.post(replace(post, limit_bytes=n * MIB), lambda: None) for n in (1, 64, 1024)]
    guards = [guard for guard in found if guard is not None]
    assert len(guards) == 3 and posts._child is not None
    for guard in guards:
        with guard.command(lambda: True):
            assert not guard.over()
    pids = children_of(posts._child.pid)
    assert len(pids) == 3
    with guards[0]:
        pass
    until(lambda: sum(map(is_there, pids)) == 2)
    assert not guards[1].over() and not guards[2].over()
    for guard in guards[1:]:
        with guard:
            pass
    until(lambda: not any(map(is_there, pids)))


def test_a_process_that_was_killed_is_begun_again(post: Post, posts: Lookouts) -> None:
    """Its guards go on without it; the next one has a new one."""
    first = posts.post(post, lambda: None)
    assert first is not None and posts._child is not None
    with first.command(lambda: True):
        pass
    posts._child.kill()
    posts._child.wait()
    second = posts.post(post, lambda: None)
    assert second is not None
    for guard in (first, second):
        with guard, guard.command(lambda: True):
            assert not guard.over()


def test_without_a_process_there_is_no_posted_guard(
    post: Post, posts: Lookouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the worker guards in a thread of its own."""

    def refused(*args: object, **more: object) -> None:
        raise OSError("no process can be had")

    monkeypatch.setattr("workers.sandbox.lookouts.subprocess.Popen", refused)
    assert posts.post(post, lambda: None) is None


@pytest.mark.parametrize("program", ["none_such", "this"])
def test_where_our_code_cannot_be_read_there_is_no_posted_guard(
    post: Post, posts: Lookouts, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """A process that ends before it is up takes no post with it, which would cost the try that waits."""
    monkeypatch.setattr("workers.sandbox.lookouts._PROGRAM", program)
    posts.begin()
    assert posts.post(post, lambda: None) is None


def test_no_process_for_guards_is_no_fault_of_a_try(posts: Lookouts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is begun while a container is made, long before anybody asks for a guard."""

    def refused(*args: object, **more: object) -> None:
        raise BlockingIOError("no process can be had")

    monkeypatch.setattr("workers.sandbox.lookouts.subprocess.Popen", refused)
    posts.begin()


def test_a_service_that_is_told_to_end_keeps_its_guards(post: Post, posts: Lookouts) -> None:
    """SIGTERM goes to every process of it, and running tries end in peace."""
    guard = posts.post(post, lambda: None)
    assert guard is not None and posts._child is not None
    with guard:
        with guard.command(lambda: True):
            for pid in (posts._child.pid, *children_of(posts._child.pid)):
                os.kill(pid, signal.SIGTERM)
            assert not guard.over()
        with guard.command(lambda: True):
            assert not guard.over()
    assert posts._child.poll() is None


_WORKER = """
import os, signal, sys
from pathlib import Path
from workers.sandbox.lookouts import Lookouts, Post
posts = Lookouts()
guard = posts.post(Post.from_bytes(sys.argv[1].encode()), lambda: None)
command = guard.command(lambda: False)
command.__enter__()
child = posts._child.pid
print(child, Path(f"/proc/{child}/task/{child}/children").read_text(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_worker(post: Post) -> tuple[int, int]:
    """The process and the guard of a worker that ended by kill -9 while a command was running."""
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, post.as_bytes().decode()], capture_output=True, text=True, cwd=ROOT
    )
    process, guard = (int(word) for word in done.stdout.split())
    assert done.returncode == -signal.SIGKILL
    return process, guard


def test_a_guard_outlives_a_killed_worker_as_long_as_the_container(post: Post) -> None:
    """Until the reaper comes nobody else bounds the agent; with the container the guard ends."""
    process, guard = killed_worker(post)
    until(lambda: not is_there(process))
    assert is_there(guard)
    shutil.rmtree(post.freezer)
    until(lambda: not is_there(guard))


def test_an_agent_without_a_worker_is_killed_as_well(post: Post) -> None:
    """kill -9 of a worker is no leave to fill the disk."""
    _, guard = killed_worker(post)
    with subprocess.Popen(["sleep", "1000"]) as agents:
        (Path(post.freezer) / "cgroup.procs").write_text(f"{agents.pid}\n")
        (Path(post.upper) / "f").write_bytes(b"x" * 2 * MIB)
        assert agents.wait(60) == -signal.SIGKILL
    until(lambda: not is_there(guard))


def test_the_words_are_told_apart() -> None:
    """None is the beginning of another, or empty, which would read as the end of the line."""
    words = (MARK, DONE, BYE, UP, OVER, FAILED)
    assert all(words) and len({word[:2] for word in words}) == len(words)
    assert os.path.exists(ROOT / (lookouts._PROGRAM.replace(".", "/") + ".py"))
