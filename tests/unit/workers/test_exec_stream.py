"""The exec reader: frames, byte cap, and every way a command can end, without an engine."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import ContainerGoneError, EngineCallError
from workers.sandbox import execute as module
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.disk import DiskWatch
from workers.sandbox.execute import Command, ExecResult, StreamEnd, _Demultiplexer, run_command
from workers.sandbox.guard import DiskGuard
from workers.sandbox.holds import PausedHold

FAR_S = 60.0


class FullDisk(DiskGuard):
    """A guard that has convicted, and ended what ran."""

    def __init__(self) -> None:
        super().__init__(cast(DiskWatch, None), PausedHold(cast(Container, None)))

    def over(self) -> bool:
        return True


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def demultiplexed(pieces: list[bytes], cap_bytes: int) -> tuple[ExecResult, bool]:
    result = ExecResult(StreamEnd.EOF, None, 0)
    sink, going = _Demultiplexer(result, cap_bytes), True
    for piece in pieces:
        going = sink.feed(piece)
        if not going:
            break
    return result, going


frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=10)


@given(frames, st.lists(st.integers(0, 400), max_size=12))
def test_any_split_of_the_stream_gives_the_same_bytes(
    found: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    """Frames arrive in pieces of any size, headers included."""
    wire = b"".join(frame(kind, payload) for kind, payload in found)
    edges = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    pieces = [wire[a:b] for a, b in itertools.pairwise(edges)]
    result, going = demultiplexed(pieces, 10_000)
    assert going
    assert bytes(result.stdout) == b"".join(payload for kind, payload in found if kind == 1)
    assert bytes(result.stderr) == b"".join(payload for kind, payload in found if kind == 2)
    assert result.seen_bytes == len(result.stdout) + len(result.stderr)


@given(frames, st.integers(0, 300), st.booleans())
def test_the_cap_covers_both_streams_and_is_exact(
    found: list[tuple[int, bytes]], cap_bytes: int, bytewise: bool
) -> None:
    """Never more is kept than the cap, and reading stops once it is exceeded, not when it is reached."""
    wire = b"".join(frame(kind, payload) for kind, payload in found)
    pieces = [bytes([byte]) for byte in wire] if bytewise else [wire]
    result, going = demultiplexed(pieces, cap_bytes)
    total = sum(len(payload) for _, payload in found)
    assert going is (total <= cap_bytes)
    assert len(result.stdout) + len(result.stderr) == min(total, cap_bytes)


def test_a_frame_as_long_as_a_header_can_say_is_not_waited_for() -> None:
    """Memory holds what is kept, not what is announced."""
    result, going = demultiplexed([b"\x01\0\0\0\xff\xff\xff\xff", b"x" * 100], 10)
    assert not going and bytes(result.stdout) == b"x" * 10 and result.seen_bytes == 100


class FakeEngine:
    """Answers the exec calls; `serve` plays the engine's side of the hijacked connection."""

    api_version = "1.41"

    def __init__(self, path: str, serve: Callable[[socket.socket], None]) -> None:
        self.socket_path = path
        self.states: list[Any] = [{"Running": False, "Pid": 7, "ExitCode": 0}]
        self.inspected = 0
        self.created: dict[str, Any] = {}
        self.api = SimpleNamespace(exec_create=self._create, exec_inspect=self._inspect)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            received = b""
            while b"\r\n\r\n" not in received:
                received += connection.recv(4096)
            try:
                self._serve(connection)
            except OSError:
                return  # the reader hung up, as it should

    def _create(self, container_id: str, argv: list[str], **values: Any) -> dict[str, str]:
        self.created = {"container": container_id, "argv": argv, **values}
        return {"Id": "e" * 64}

    def _inspect(self, exec_id: str) -> Any:
        state = self.states[min(self.inspected, len(self.states) - 1)]
        self.inspected += 1
        if isinstance(state, Exception):
            raise state
        return state

    def close(self) -> None:
        self._listener.close()
        self._thread.join(5)


HEAD = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: x\r\n\r\n"
MakeEngine = Callable[[Callable[[socket.socket], None]], FakeEngine]


@pytest.fixture
def make_engine(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeEngine]:
    monkeypatch.setattr(module, "_CHECK_S", 0.02)
    monkeypatch.setattr(module, "_TICK_MS", 5)
    monkeypatch.setattr(module, "_AFTERMATH_S", 0.1)
    made: list[FakeEngine] = []

    def make(serve: Callable[[socket.socket], None]) -> FakeEngine:
        made.append(FakeEngine(str(tmp_path / f"s{len(made)}"), serve))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def run(engine: FakeEngine, **changes: Any) -> ExecResult:
    values: dict[str, Any] = {
        "deadline": time.monotonic() + FAR_S,
        "cap_bytes": 1_000,
        "still_running": lambda: True,
    }
    command = Command(["sh", "-c", "x"], "1:2", {"A": "b"}, "/w")
    return run_command(cast(Engine, engine), "c" * 64, command, **{**values, **changes})


def holding(data: bytes) -> Callable[[socket.socket], None]:
    """An engine's side that sends `data` and keeps the stream open until the reader hangs up."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(data)
        connection.settimeout(10)
        connection.recv(1)

    return serve


def test_a_command_that_ends(make_engine: MakeEngine) -> None:
    """Output of both kinds, and the exit code that the engine says."""
    engine = make_engine(lambda c: c.sendall(HEAD + frame(1, b"out") + frame(2, b"err")))
    engine.states = [{"Running": False, "Pid": 7, "ExitCode": 7}]
    result = run(engine)
    assert (result.end, result.exit_code) == (StreamEnd.EOF, 7)
    assert (bytes(result.stdout), bytes(result.stderr)) == (b"out", b"err")
    assert engine.created["user"] == "1:2" and engine.created["workdir"] == "/w"
    assert engine.created["stdin"] is False and engine.created["environment"] == {"A": "b"}


@pytest.mark.parametrize(("pid", "never"), [(0, True), (7, False)])
def test_a_command_that_the_runtime_cannot_start(make_engine: MakeEngine, pid: int, never: bool) -> None:
    """The engine tells the runtime's words as output and ends with a shell's exit code."""
    engine = make_engine(lambda c: c.sendall(HEAD + frame(1, b"OCI runtime exec failed")))
    engine.states = [{"Running": False, "Pid": pid, "ExitCode": 126}]
    result = run(engine)
    assert (result.end, result.exit_code, result.never_began) == (StreamEnd.EOF, 126, never)


def test_a_closed_stream_is_not_the_end(make_engine: MakeEngine) -> None:
    """life-close-stdio: a command that closed its own output goes on until it is over."""
    engine = make_engine(lambda c: c.sendall(HEAD))
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}] * 5 + [
        {"Running": False, "Pid": 7, "ExitCode": 3}
    ]
    result = run(engine)
    assert (result.end, result.exit_code, engine.inspected) == (StreamEnd.EOF, 3, 6)


def test_a_closed_stream_of_a_command_that_never_ends(make_engine: MakeEngine) -> None:
    """The deadline still holds, and no exit code is made up."""
    engine = make_engine(lambda c: c.sendall(HEAD))
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    result = run(engine, deadline=time.monotonic() + 0.2)
    assert (result.end, result.exit_code) == (StreamEnd.DEADLINE, None)


def test_a_closed_stream_of_a_dead_container(make_engine: MakeEngine) -> None:
    """An engine may call a command running that died with its container."""
    engine = make_engine(lambda c: c.sendall(HEAD))
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    assert run(engine, still_running=lambda: False).end is StreamEnd.CONTAINER_GONE


def test_an_open_pipe_of_a_command_that_ended(make_engine: MakeEngine) -> None:
    """life-hold-pipe: a child that keeps the pipe does not keep the try."""
    engine = make_engine(holding(HEAD + frame(1, b"x")))
    engine.states = [
        {"Running": True, "Pid": 7, "ExitCode": None},
        {"Running": False, "Pid": 7, "ExitCode": 0},
    ]
    result = run(engine)
    assert (result.end, result.exit_code, bytes(result.stdout)) == (StreamEnd.EOF, 0, b"x")


def test_a_busy_pipe_of_a_command_that_ended(make_engine: MakeEngine) -> None:
    """A child that never stops printing is not a sign of life either."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        while True:
            connection.sendall(frame(1, b"x"))

    result = run(make_engine(serve), cap_bytes=1 << 30)
    assert (result.end, result.exit_code) == (StreamEnd.EOF, 0)


def test_silence_until_the_deadline(make_engine: MakeEngine) -> None:
    """A command that says nothing is stopped by our clock alone."""
    engine = make_engine(holding(HEAD))
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    result = run(engine, deadline=time.monotonic() + 0.2)
    assert (result.end, result.exit_code) == (StreamEnd.DEADLINE, None)


def test_a_flood_ends_at_the_cap(make_engine: MakeEngine) -> None:
    """res-stdout-flood: what came with the engine's first answer counts as well."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(HEAD + frame(1, b"x" * 600))
        while True:
            connection.sendall(frame(2, b"y" * 600))

    result = run(make_engine(serve))
    assert result.end is StreamEnd.OUTPUT_CAP and result.exit_code is None
    assert len(result.stdout) + len(result.stderr) == 1_000


def test_a_flood_in_the_first_answer(make_engine: MakeEngine) -> None:
    """Before the poll loop begins."""
    engine = make_engine(lambda c: c.sendall(HEAD + frame(1, b"x" * 2_000)))
    result = run(engine)
    assert (result.end, len(result.stdout)) == (StreamEnd.OUTPUT_CAP, 1_000)


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"still_running": lambda: False}, StreamEnd.CONTAINER_GONE),
        ({"cancelled": lambda: True}, StreamEnd.CANCELLED),
        ({"guard": FullDisk()}, StreamEnd.DISK_CAP),
        ({"deadline": 0.0}, StreamEnd.DEADLINE),
    ],
)
def test_ends_of_our_own(make_engine: MakeEngine, changes: dict[str, Any], end: StreamEnd) -> None:
    """A stream that never ends is left for each of these."""
    engine = make_engine(holding(HEAD))
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    assert run(engine, **changes).end is end


def test_a_kill_for_the_disk_is_no_end_of_the_command_s_own(make_engine: MakeEngine) -> None:
    """The stream ends with the killed process, before anybody looks at the guard."""
    engine = make_engine(lambda c: c.sendall(HEAD))
    engine.states = [{"Running": False, "Pid": 7, "ExitCode": 137}]
    result = run(engine, guard=FullDisk())
    assert (result.end, result.exit_code) == (StreamEnd.DISK_CAP, None)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 409 Conflict\r\n\r\n{}", 409),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n{}", 500),
        (b"nonsense\r\n\r\n", None),
        (b"\r\n\r\n", None),
        (b"", None),
        (b"HTTP/1.1 101", None),
        (b"x" * 20_000, None),
    ],
)
def test_an_engine_that_does_not_open_the_stream(
    make_engine: MakeEngine, answer: bytes, status: int | None
) -> None:
    """One typed error with the engine's status, whatever it says instead."""
    with pytest.raises(EngineCallError) as raised:
        run(make_engine(lambda c: c.sendall(answer)))
    assert (raised.value.call, raised.value.status) == ("exec_start", status)


def test_no_engine_at_all(make_engine: MakeEngine) -> None:
    """A refused connection is an engine error, not a crash of the worker."""
    engine = make_engine(lambda c: None)
    engine.socket_path += "-gone"
    with pytest.raises(EngineCallError):
        run(engine)


def test_a_container_removed_by_somebody(make_engine: MakeEngine) -> None:
    """Told apart from an engine that fails."""
    engine = make_engine(lambda c: c.sendall(HEAD))
    engine.states = [ContainerGoneError("exec_inspect", "NotFound", "", 404)]
    with pytest.raises(ContainerGoneError):
        run(engine)


class Echo:
    """A talk that sends `first`, answers every piece with as many bytes, and is over after `enough` bytes."""

    def __init__(self, first: bytes = b"", enough: int = 1 << 30) -> None:
        self.out, self.heard_bytes, self.enough = bytearray(first), bytearray(), enough

    def heard(self, data: bytes) -> None:
        self.heard_bytes += data
        self.out += b"." * len(data)

    def waiting(self) -> bytes:
        return bytes(self.out[:65_536])

    def sent(self, count: int) -> None:
        del self.out[:count]

    def over(self) -> bool:
        return len(self.heard_bytes) >= self.enough


def test_a_talk_over_the_streams(make_engine: MakeEngine) -> None:
    """Standard output is heard and kept, standard error only kept; it ends when there is no more to say."""
    got = bytearray()

    def serve(connection: socket.socket) -> None:
        connection.sendall(HEAD + frame(2, b"warning"))
        connection.settimeout(10)
        while len(got) < 1_000_000:
            got.extend(connection.recv(65_536))
        connection.sendall(frame(1, b"ab") + frame(1, b"c"))
        connection.recv(1)

    engine = make_engine(serve)
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    talk = Echo(b"x" * 1_000_000, enough=3)
    result = run(engine, dialogue=talk)
    assert (result.end, result.exit_code) == (StreamEnd.TALK_OVER, None)
    assert bytes(got) == b"x" * 1_000_000 and bytes(talk.heard_bytes) == b"abc" == bytes(result.stdout)
    assert bytes(result.stderr) == b"warning" and engine.created["stdin"] is True


def test_a_talk_that_nobody_listens_to_ends_at_the_deadline(make_engine: MakeEngine) -> None:
    """A full pipe keeps no thread of ours."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        over.wait(10)

    engine = make_engine(serve)
    engine.states = [{"Running": True, "Pid": 7, "ExitCode": None}]
    result = run(engine, deadline=time.monotonic() + 0.3, dialogue=Echo(b"x" * (16 << 20)))
    over.set()
    assert result.end is StreamEnd.DEADLINE


def test_a_talk_that_is_broken_off_unread(make_engine: MakeEngine) -> None:
    """The connection is reset then; the engine is asked how the command ended."""
    engine = make_engine(holding(HEAD))
    engine.states = [{"Running": False, "Pid": 7, "ExitCode": 7}]
    result = run(engine, dialogue=Echo(b"x" * (16 << 20)))
    assert (result.end, result.exit_code) == (StreamEnd.EOF, 7)


def test_a_talk_with_a_command_that_ended(make_engine: MakeEngine) -> None:
    """Its end is that of any command, whatever is still to be said."""
    engine = make_engine(lambda c: c.sendall(HEAD + frame(1, b"out")))
    engine.states = [{"Running": False, "Pid": 7, "ExitCode": 7}]
    result = run(engine, dialogue=Echo(b"x" * 100_000))
    assert (result.end, result.exit_code) == (StreamEnd.EOF, 7)


def test_a_talk_hears_nothing_beyond_the_cap(make_engine: MakeEngine) -> None:
    """The cap covers what is said in it."""
    engine = make_engine(holding(HEAD + frame(1, b"y" * 2_000)))
    talk = Echo()
    assert run(engine, dialogue=talk).end is StreamEnd.OUTPUT_CAP
    assert len(talk.heard_bytes) == 1_000
