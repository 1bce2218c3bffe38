"""Facts from outside the sandbox: cgroup counters of both versions, the event watch, the disk watch."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.sandbox import watch as watch_module
from workers.sandbox.client import Engine
from workers.sandbox.counters import Counters, read_counters
from workers.sandbox.disk import EVERY_S, DiskWatch, Due, Free, free_on
from workers.sandbox.watch import EngineWatch

ID = "c" * 64
NOTHING = Counters(None, None, None)


def files(root: Path, found: dict[str, str]) -> Path:
    for name, text in found.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = {
    f"memory/docker/{ID}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    f"memory/docker/{ID}/memory.max_usage_in_bytes": "134217728\n",
    f"pids/docker/{ID}/pids.events": "max 7\n",
}


def v2(folder: str) -> dict[str, str]:
    return {
        f"{folder}/memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n",
        f"{folder}/memory.peak": "134217728\n",
        f"{folder}/pids.events": "max 7\n",
    }


@pytest.mark.parametrize(
    "found",
    [V1, v2(f"system.slice/docker-{ID}.scope"), v2(f"docker/{ID}")],
    ids=["v1", "systemd", "cgroupfs"],
)
def test_counters(tmp_path: Path, found: dict[str, str]) -> None:
    """`oom_kill`, the peak and refused forks, wherever this host keeps them (reference/sandbox.md 1.2)."""
    assert read_counters(ID, files(tmp_path, found)) == Counters(3, 134217728, 7)


@pytest.mark.parametrize("found", [V1, v2(f"docker/{ID}")], ids=["v1", "v2"])
def test_each_counter_may_be_missing_or_broken(tmp_path: Path, found: dict[str, str]) -> None:
    """Not observed is None, never zero; one broken file does not spoil the others."""
    for number, name in enumerate(found):
        for case, text in enumerate([None, "", "garbage\n", "oom_kill x\nmax x\n"]):
            root = tmp_path / f"{number}-{case}"
            files(root, found)
            if text is None:
                (root / name).unlink()
            else:
                (root / name).write_text(text)
            values = list(vars(read_counters(ID, root)).values())
            assert values[number] is None
            assert [value for at, value in enumerate(values) if at != number] != [None, None]


def test_no_cgroup(tmp_path: Path) -> None:
    """A container that is gone, or a host that hides its cgroups."""
    assert read_counters(ID, tmp_path) == NOTHING
    assert read_counters(ID, files(tmp_path, v2("docker/" + "d" * 64))) == NOTHING


class FakeEvents:
    """The engine's event stream on a Unix socket; lines are sent on demand."""

    api_version = "1.41"

    def __init__(self, path: str) -> None:
        self.socket_path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self.connected = threading.Semaphore(0)
        self.requests: list[bytes] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self.requests.append(connection.recv(4096))
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n")
            self.connected.release()

    def send(self, *lines: bytes) -> None:
        self._open[-1].sendall(b"".join(lines))

    def event(self, action: str, container: str = ID) -> None:
        self.send(json.dumps({"id": container, "status": action}).encode() + b"\n")

    def cut(self) -> None:
        self._open[-1].close()

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def events(tmp_path: Path) -> Iterator[FakeEvents]:
    made = FakeEvents(str(tmp_path / "engine.sock"))
    yield made
    made.close()


@pytest.fixture
def watch(events: FakeEvents, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineWatch]:
    monkeypatch.setattr(watch_module, "_RECONNECT_S", 0.01)
    made = EngineWatch(cast(Engine, events), "assize.attempt")
    assert events.connected.acquire(timeout=10)
    yield made
    made.close()


def test_events_are_counted_by_container(watch: EngineWatch, events: FakeEvents) -> None:
    """Exec health checks carry their command behind a colon; other containers are apart."""
    for action in ("kill", "kill", "oom", "exec_die: sh", "die"):
        events.event(action)
    events.event("kill", "d" * 64)
    assert watch.wait_for("d" * 64, "kill", 10)
    assert dict(watch.actions(ID)) == {"kill": 2, "oom": 1, "exec_die": 1, "die": 1}
    assert watch.actions("e" * 64)["kill"] == 0
    assert b"assize.attempt" in events.requests[0]


def test_waiting_ends_without_the_event(watch: EngineWatch) -> None:
    """A lost event costs its wait, not the attempt."""
    assert not watch.wait_for(ID, "die", 0.01)


def test_a_forgotten_container_leaves_nothing_and_of_destroyed_ones_few_are_kept(
    watch: EngineWatch, events: FakeEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that runs for weeks must not remember every container, its own or a neighbour's."""
    monkeypatch.setattr(watch_module, "_REMEMBERED", 1)
    for container in ("a" * 64, "b" * 64, "e" * 64):
        events.event("die", container)
        assert watch.wait_for(container, "die", 10)
    watch.forget("a" * 64)
    for container in ("a" * 64, "b" * 64, "e" * 64):
        events.event("destroy", container)
    events.event("die")
    assert watch.wait_for(ID, "die", 10)
    assert set(watch._seen) == {"e" * 64, ID}


def test_a_container_that_somebody_removed_was_killed_first(watch: EngineWatch, events: FakeEvents) -> None:
    """`rm -f` from outside: what is asked after the removal must not look like a death inside."""
    for action in ("kill", "die", "destroy"):
        events.event(action)
    assert watch.wait_for(ID, "destroy", 10)
    assert watch.actions(ID)["kill"] == 1


@pytest.mark.parametrize(
    "noise", [b"not json\n", b"{broken\n", b'[1]\n{"id": 5}\n{"id": "x", "status": null}\n']
)
def test_noise_on_the_stream(watch: EngineWatch, events: FakeEvents, noise: bytes) -> None:
    """Lines of no event are passed over; a broken one counts as a broken stream, and the watch goes on."""
    events.send(noise)
    if noise.startswith(b"{broken"):
        assert events.connected.acquire(timeout=10)
        assert watch.broken_since(0.0)
    events.event("die")
    assert watch.wait_for(ID, "die", 10)


def test_a_broken_stream_is_remembered_and_mended(watch: EngineWatch, events: FakeEvents) -> None:
    """An engine restart: attempts that were running know, later ones do not care."""
    assert not watch.broken_since(0.0)
    events.cut()
    assert events.connected.acquire(timeout=10)
    assert watch.broken_since(0.0)
    assert not watch.broken_since(float("inf"))
    assert not watch.broken_since(float("inf"), 0.01)


def test_a_break_that_is_still_to_be_told_is_waited_for(watch: EngineWatch, events: FakeEvents) -> None:
    """A failed call and the end of the stream come at the same moment, in whatever order."""
    started = time.monotonic()
    events.cut()
    assert watch.broken_since(started, 10)
    assert events.connected.acquire(timeout=10)
    events.event("die")
    assert watch.wait_for(ID, "die", 10)


def test_closing_ends_the_thread(events: FakeEvents) -> None:
    """No thread outlives its worker."""
    made = EngineWatch(cast(Engine, events), "x")
    made.close()
    assert not made._thread.is_alive()


GIB = 1 << 30


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by hand."""
    now = [100.0]
    monkeypatch.setattr("workers.sandbox.disk.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


class Disk:
    """A disk and a container on it, with everything that was asked."""

    def __init__(self) -> None:
        self.free: Free | None = Free(100 * GIB, 10_000_000)
        self.written = 0
        self.many = False
        self.measured: list[str] = []

    def watch(self, **changes: Any) -> DiskWatch:
        limits = {"limit_bytes": 10 * GIB, "limit_files": 100_000}
        return DiskWatch(lambda: self.free, self._bytes, self._files, **{**limits, **changes})

    def lose(self, lost_bytes: int, lost_files: int = 0) -> None:
        assert self.free is not None
        self.free = Free(self.free.bytes - lost_bytes, self.free.files - lost_files)

    def _bytes(self) -> int:
        self.measured.append("bytes")
        return self.written

    def _files(self) -> bool:
        self.measured.append("files")
        return self.many


def over(watch: DiskWatch) -> bool:
    """One look, and a measurement if it is due."""
    return watch.due() is not None and watch.measure()


def test_nothing_is_measured_while_the_disk_is_quiet(clock: list[float]) -> None:
    """The usual try pays for one system call at every look."""
    disk = Disk()
    watch = disk.watch()
    disk.lose(4 * GIB, 50_000)
    assert watch.due() is None and disk.measured == []


def test_a_container_that_fills_the_disk(clock: list[float]) -> None:
    """res-disk-writable: measured once half of the limit is gone, and over when it is this container's."""
    disk = Disk()
    watch = disk.watch()
    disk.lose(5 * GIB)
    disk.written = 11 * GIB
    assert watch.due() is Due.SIGN and watch.measure() and disk.measured == ["bytes"]


def test_a_neighbour_that_fills_the_disk(clock: list[float]) -> None:
    """The innocent is measured, kept, and not measured again for the same loss."""
    disk = Disk()
    watch = disk.watch()
    disk.lose(20 * GIB)
    disk.written = GIB
    assert not over(watch) and watch.due() is None and disk.measured == ["bytes"]
    disk.lose(10 * GIB)
    disk.written = 11 * GIB
    assert over(watch)


@pytest.mark.parametrize(
    ("written", "sign"),
    [(0, 5 * GIB), (6 * GIB, 2 * GIB), (9 * GIB + GIB // 2, GIB // 4), (10 * GIB, 16 * (GIB >> 10))],
)
def test_the_less_is_left_the_earlier_is_the_next_measurement(
    clock: list[float], written: int, sign: int
) -> None:
    """What may still be written cannot be, without half of it going from the disk first; at the end the
    least is a number of bytes, as a crowd passes the limit by it."""
    disk = Disk()
    watch = disk.watch()
    disk.written = written
    assert not watch.measure()
    disk.lose(sign - 1)
    assert watch.due() is None
    disk.lose(1)
    assert watch.due() is Due.SIGN


def test_looks_are_sooner_where_little_is_left(clock: list[float]) -> None:
    """No disk is quick enough to fill what is left between two looks; at the limit there is a shortest."""
    disk = Disk()
    watch = disk.watch()
    assert watch.pause_s() == EVERY_S
    disk.written = 10 * GIB - 64 * (GIB >> 10)
    assert not watch.measure() and 0.002 < watch.pause_s() < 0.01
    disk.written = 10 * GIB
    assert not watch.measure() and watch.pause_s() == 0.002


@pytest.mark.parametrize("many", [True, False])
def test_files_are_counted_too(clock: list[float], many: bool) -> None:
    """res-inodes: a disk is full without a byte in its files."""
    disk = Disk()
    watch = disk.watch()
    disk.lose(0, 100_000)
    disk.many = many
    assert over(watch) is many and disk.measured == ["bytes", "files"]
    assert many or watch.due() is None


def test_counting_files_is_spared_where_none_have_gone(clock: list[float]) -> None:
    """Where it takes a walk over the whole image; where it is cheap, the answer is always whole."""
    for anyway_s, asked in ((None, ["bytes"]), (2.0, ["bytes", "files"])):
        disk = Disk()
        watch = disk.watch(anyway_s=anyway_s)
        disk.lose(6 * GIB)
        assert not over(watch) and disk.measured == asked


def test_a_neighbour_that_deletes_hides_nobody(clock: list[float]) -> None:
    """Where measuring is cheap, a disk that grows emptier is no proof that this container is."""
    disk = Disk()
    watch = disk.watch(anyway_s=2.0)
    disk.lose(-100 * GIB)
    disk.written = 6 * GIB
    assert watch.due() is None
    clock[0] += 2.1
    assert watch.due() is Due.ANYWAY and not watch.measure()
    assert watch.due() is None, "not asked again at once"
    clock[0] += 0.6
    assert watch.due() is Due.ANYWAY, "the less is left, the sooner"
    disk.written = 11 * GIB
    assert over(watch)
    disk.written, disk.many = 0, True
    clock[0] += 2.1
    assert over(watch)


def test_a_disk_that_cannot_be_asked(clock: list[float]) -> None:
    """An engine elsewhere: no watch, and no error."""
    disk = Disk()
    disk.free = None
    assert disk.watch().due() is None
    disk = Disk()
    watch = disk.watch()
    disk.free = None
    assert watch.due() is None and not watch.measure()
    assert free_on("/no/such/folder") is None
    assert free_on("/") is not None


def test_slow_measurements_are_made_rarer_but_not_blind(clock: list[float]) -> None:
    """An innocent with many files is held still for a part of its time; a whole limit is never missed."""
    disk = Disk()

    def slow() -> int:
        clock[0] += 5.0
        return 0

    watch = DiskWatch(lambda: disk.free, slow, lambda: False, limit_bytes=GIB, limit_files=1)
    disk.lose(GIB // 2)
    assert not over(watch)
    disk.lose(GIB - 1)
    for _ in range(14):
        clock[0] += 1.0
        assert watch.due() is None
    disk.lose(1)
    assert watch.due() is Due.SIGN, "as much as the whole limit has gone"
    disk.lose(-1)
    clock[0] += 1.1
    assert watch.due() is Due.SIGN, "the rest is over"


def test_a_neighbour_that_is_removed_hides_nothing(clock: list[float]) -> None:
    """own-disk-holes-filled: what a whole sandbox gives back is no part of what another one has taken."""
    disk = Disk()
    watch = disk.watch()
    disk.lose(-8 * GIB, -80_000)
    assert watch.due() is None
    disk.lose(3 * GIB)
    assert watch.due() is None
    disk.lose(-8 * GIB)
    assert watch.due() is None
    disk.lose(2 * GIB)
    disk.written = 5 * GIB
    assert watch.due() is Due.SIGN and not watch.measure(), "half of the limit, by two looks"
    disk.lose(-8 * GIB)
    assert watch.due() is None, "counted from the measurement on"
    disk.lose(5 * GIB // 2, 50_000)
    assert watch.due() is Due.SIGN


def test_no_rest_hides_one_that_may_be_past_its_limit(clock: list[float]) -> None:
    """Near its limit, what was left is the sign and not the whole limit: it cannot be passed without."""

    def slow() -> int:
        clock[0] += 5.0
        return 3 * GIB // 4

    disk = Disk()
    watch = DiskWatch(lambda: disk.free, slow, lambda: False, limit_bytes=GIB, limit_files=10)
    disk.lose(3 * GIB // 4)
    assert not over(watch)
    disk.lose(GIB // 4 - 1)
    assert watch.due() is None
    disk.lose(1)
    assert watch.due() is Due.SIGN
