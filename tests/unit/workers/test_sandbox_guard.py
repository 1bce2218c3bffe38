"""The guard over the disk: look, hold still, measure, then kill or let go, in this order and no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from workers.errors import EngineCallError
from workers.sandbox.disk import DiskWatch, Due
from workers.sandbox.freezer import Freezer
from workers.sandbox.guard import DiskGuard
from workers.sandbox.holds import FrozenHold

ID = "c" * 64


class Log:
    """A watch and a hold in one, which write down what is asked of them."""

    def __init__(self, due: Iterator[Due | None], measured: Iterator[Any], settled: Iterator[bool]) -> None:
        self._due, self._measured, self._settled = due, measured, settled
        self.done: list[str] = []
        self.looked = threading.Event()
        self.marked = False

    def pause_s(self) -> float:
        return 0.0

    def due(self) -> Due | None:
        found = next(self._due, None)
        if found is None:
            self.looked.set()
        return found

    def measure(self) -> bool:
        self.done.append("measure")
        found = next(self._measured)
        if isinstance(found, Exception):
            raise found
        return bool(found)

    def mark(self) -> None:
        self.marked = True

    def begun(self) -> bool:
        return False

    def begin(self) -> None:
        self.done.append("begin")

    def settled(self) -> bool:
        return next(self._settled, True)

    def let_go(self) -> None:
        self.done.append("let_go")

    def convict(self) -> None:
        self.done.append("convict")


def guarded(due: list[Due | None], measured: list[Any], settled: list[bool] | None = None) -> Log:
    return Log(iter(due), iter(measured), iter(settled or []))


def guard_of(log: Log) -> DiskGuard:
    return DiskGuard(cast(DiskWatch, log), log)


def until_over(guard: DiskGuard, log: Log) -> bool:
    with guard:
        guard._thread.join(0.01)
        while guard._thread.is_alive() and not log.looked.wait(0.01):
            pass
        return guard.over()


def test_a_guilty_one_is_killed_before_it_is_let_go() -> None:
    """Between the sign and the end nothing is written."""
    log = guarded([None, Due.SIGN], [True])
    guard = guard_of(log)
    with guard:
        guard._thread.join(10)
        assert guard.over()
    assert log.done == ["begin", "measure", "convict", "let_go"]


def test_an_innocent_is_let_go() -> None:
    """L3: a neighbour's writing costs the time of one measurement."""
    log = guarded([Due.SIGN], [False])
    assert not until_over(guard_of(log), log)
    assert log.done == ["begin", "measure", "let_go"]


def test_what_is_not_yet_still_is_measured_again() -> None:
    """A process in a long system call writes on; convicted in its middle or cleared at its end."""
    log = guarded([Due.SIGN], [False, False, True], [False, False, False])
    assert until_over(guard_of(log), log)
    assert log.done == ["begin", "measure", "measure", "measure", "convict", "let_go"]
    log = guarded([Due.SIGN], [False, False, False], [False, False, True])
    assert not until_over(guard_of(log), log)
    assert log.done.count("measure") == 3


def test_a_usual_measurement_holds_nobody_still() -> None:
    """Every two seconds in any case; only what looks guilty is held and measured again."""
    log = guarded([Due.ANYWAY], [False])
    assert not until_over(guard_of(log), log)
    assert log.done == ["measure"]
    log = guarded([Due.ANYWAY], [True, True])
    assert until_over(guard_of(log), log)
    assert log.done == ["measure", "begin", "measure", "convict", "let_go"]


def test_a_measurement_that_fails_lets_go_and_is_told() -> None:
    """Trouble of the engine's is nobody's conviction, and never leaves a container frozen."""
    log = guarded([Due.SIGN], [EngineCallError("size", "ReadTimeout", "slow")])
    with pytest.raises(EngineCallError):
        until_over(guard_of(log), log)
    assert log.done == ["begin", "measure", "let_go"]


def test_no_command_begins_in_a_frozen_container() -> None:
    """The engine refuses it (measured: exit code 126): a start waits for the thaw, a hold for the start."""
    log = guarded([Due.SIGN], [False, False, False])
    guard, states = guard_of(log), iter([False, False, True])
    with guard.command(lambda: next(states)), guard:
        guard._thread.join(0.01)
        while not log.looked.wait(0.01):
            pass
    assert log.done == ["measure", "measure", "begin", "measure", "let_go"] and next(states, None) is None
    held: list[bool] = []
    log = guarded([Due.SIGN], [False])
    guard = guard_of(log)
    log.begin = lambda: held.append(guard._gate.locked())  # type: ignore[method-assign]
    until_over(guard, log)
    assert held == [True]
    with guard.command(lambda: True):
        assert guard._is_up is not None and log.marked
    assert guard._is_up is None


def test_what_holds_too_much_has_begun() -> None:
    """own-disk-fallocate under a kernel of its own: only the engine tells of a begin, and may do so late."""
    log = guarded([Due.SIGN], [False, True, True])
    guard = guard_of(log)
    with guard.command(lambda: False), guard:
        guard._thread.join(10)
        assert guard.over()
    assert log.done == ["measure", "measure", "begin", "measure", "convict", "let_go"]


@pytest.fixture(params=["legacy", "unified"])
def cgroup(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[bool], None], str]:
    """A cgroup folder in its two forms: (folder, how the kernel says frozen, name of the switch)."""
    if request.param == "legacy":
        folder = tmp_path / "freezer" / "docker" / ID
        folder.mkdir(parents=True)
        switch = "freezer.state"

        def kernel(frozen: bool) -> None:
            (folder / switch).write_text("FROZEN\n" if frozen else "FREEZING\n")
    else:
        folder = tmp_path / "system.slice" / f"docker-{ID}.scope"
        folder.mkdir(parents=True)
        switch = "cgroup.freeze"

        def kernel(frozen: bool) -> None:
            (folder / "cgroup.events").write_text(f"populated 1\nfrozen {int(frozen)}\n")

    (folder / switch).write_text("")
    (folder / "cgroup.procs").write_text("11\n12\n")
    return folder, kernel, switch


def test_both_forms_of_the_freezer(cgroup: tuple[Path, Callable[[bool], None], str], tmp_path: Path) -> None:
    """cgroup v1 and v2 write and read different words."""
    folder, kernel, switch = cgroup
    freezer = Freezer.of(ID, tmp_path)
    assert freezer is not None and freezer.folder == folder and freezer.pids() == [11, 12]
    freezer.freeze()
    assert (folder / switch).read_text() in ("FROZEN", "1")
    kernel(False)
    assert not freezer.is_frozen()
    assert (folder / switch).read_text() in ("FROZEN", "1"), "one that stood half way is asked again"
    kernel(True)
    assert freezer.is_frozen()
    freezer.thaw()
    assert (folder / switch).read_text() in ("THAWED", "0")
    assert Freezer.of("d" * 64, tmp_path) is None


def test_a_container_that_is_gone_is_still(tmp_path: Path) -> None:
    """Its folder went away in the middle: nothing is raised, nothing waited for."""
    folder = tmp_path / "freezer" / "docker" / ID
    hold = FrozenHold(Freezer(folder, legacy=True), lambda: None)
    hold.begin()
    assert hold.settled()
    hold.convict()
    hold.let_go()


def test_a_conviction_spares_what_was_there_before(
    cgroup: tuple[Path, Callable[[bool], None], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PID 1 keeps the cgroup and its counters alive until they are read."""
    killed: list[int] = []
    monkeypatch.setattr("workers.sandbox.freezer.os.kill", lambda pid, signal: killed.append(pid))
    freezer = Freezer.of(ID, tmp_path)
    assert freezer is not None
    hold = FrozenHold(freezer, lambda: killed.append(0))
    (cgroup[0] / "cgroup.procs").write_text("11\n12\n13\n14\n")
    hold.convict()
    assert set(killed) == {0, 13, 14} and killed[0] == 0


@pytest.mark.parametrize(("name", "begun"), [("sh", True), ("runc:[2:INIT]", False), ("", True)])
def test_a_command_has_begun_when_its_process_is_there(
    cgroup: tuple[Path, Callable[[bool], None], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    begun: bool,
) -> None:
    """Without asking the engine; what was there before is no sign, and the runtime's own process is none."""
    monkeypatch.setattr("workers.sandbox.holds.name_of", lambda pid: name)
    freezer = Freezer.of(ID, tmp_path)
    assert freezer is not None
    hold = FrozenHold(freezer, lambda: None)
    hold.mark()
    assert not hold.begun()
    (cgroup[0] / "cgroup.procs").write_text("11\n12\n13\n")
    assert hold.begun() is begun
    hold.mark()
    assert not hold.begun()
