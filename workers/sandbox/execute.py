"""Run one command in a container with a deadline and a byte cap, reading the stream ourselves.

The ends: the command ended, the deadline passed, the byte cap was reached, the container holds too much or
is gone, the relay's reports end the try, the attempt was cancelled, or there is nothing more to say in a
`Dialogue` over its standard streams. A closed stream is not the end of a
command that closed its own output, and an open one is not a sign of life of a command that left the pipe to
a child: the engine is asked. None of these ends the processes inside: only killing the container does
(reference/sandbox.md 0.2).
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from workers.errors import EngineCallError
from workers.sandbox.client import Engine, translated
from workers.sandbox.dialogue import Dialogue
from workers.sandbox.guard import Guard

_TICK_MS: Final = 100
_CHECK_S: Final = 1.0
_AFTERMATH_S: Final = 2.0
"""How long output is still taken from a pipe that outlives its command."""
_NEVER_BEGAN: Final = (126, 127)
_HEADER: Final = 8
_READ: Final = 1 << 16
_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_MAX_HTTP_HEAD: Final = 16_384
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})\b")


class StreamEnd(StrEnum):
    """Why reading stopped."""

    EOF = "eof"
    DEADLINE = "deadline"
    OUTPUT_CAP = "output_cap"
    CONTAINER_GONE = "container_gone"
    DISK_CAP = "disk_cap"
    RELAY = "relay"
    CANCELLED = "cancelled"
    TALK_OVER = "talk_over"


@dataclass
class ExecResult:
    """What one command printed and how it ended; `exit_code` is None unless the command ended by itself.

    `never_began`: the runtime could not start it. The engine tells that as if the command had: words of the
    runtime as its output, and a shell's exit code.
    """

    end: StreamEnd
    exit_code: int | None
    wall_ms: int
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    seen_bytes: int = 0
    never_began: bool = False


@dataclass(frozen=True)
class Command:
    """What to run: argv, user (`uid:gid`), environment and working directory."""

    argv: Sequence[str]
    user: str
    environment: Mapping[str, str]
    workdir: str | None


class _Demultiplexer:
    """Splits the engine's framed stream (8-byte header: kind, 3 zero bytes, length) up to a cap."""

    def __init__(self, result: ExecResult, cap_bytes: int, dialogue: Dialogue | None = None) -> None:
        self._result = result
        self._cap = cap_bytes
        self._dialogue = dialogue
        self._header = bytearray()
        self._left = 0
        self._to_stderr = False

    def feed(self, data: bytes) -> bool:
        """Take bytes off the wire; False once the cap is exceeded. Nothing but a header is held back."""
        view = memoryview(data)
        while view:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
                self._left -= len(piece)
                self._take(piece)
                continue
            missing = _HEADER - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER:
                self._left = int.from_bytes(self._header[4:], "big")
                self._to_stderr = self._header[0] == 2
                self._header.clear()
        return self._result.seen_bytes <= self._cap

    def _take(self, payload: memoryview) -> None:
        room = max(0, self._cap - self._result.seen_bytes)
        self._result.seen_bytes += len(payload)
        (self._result.stderr if self._to_stderr else self._result.stdout).extend(payload[:room])
        if self._dialogue is not None and not self._to_stderr:
            self._dialogue.heard(bytes(payload[:room]))


def _open_stream(engine: Engine, exec_id: str) -> tuple[socket.socket, bytes]:
    """Start the exec and take over its connection; returns the socket and bytes read past the head."""
    body = json.dumps({"Detach": False, "Tty": False}).encode()
    head = (
        f"POST /v{engine.api_version}/exec/{exec_id}/start HTTP/1.1\r\nHost: docker\r\n"
        "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(30)
        connection.connect(engine.socket_path)
        connection.sendall(head.encode() + body)
        reply = b""
        while b"\r\n\r\n" not in reply:
            more = connection.recv(4096)
            if not more or len(reply) > _MAX_HTTP_HEAD:
                raise EngineCallError("exec_start", "ConnectionLost", "no answer from the engine")
            reply += more
        status_line, _, rest = reply.partition(b"\r\n")
        found = _STATUS_LINE.match(status_line)
        status = int(found[1]) if found else None
        if status not in (101, 200):
            raise EngineCallError("exec_start", "APIError", reply.decode("utf-8", "replace")[-500:], status)
    except BaseException:
        connection.close()
        raise
    connection.setblocking(False)
    return connection, rest.partition(b"\r\n\r\n")[2]


@dataclass(frozen=True)
class _Watch:
    """What is looked at beside the stream; `ended` says that the command is over, `alive` the container."""

    deadline: float
    cancelled: Callable[[], bool]
    alive: Callable[[], bool]
    ended: Callable[[], bool]
    disk_full: Callable[[], bool]
    relay_ends: Callable[[], bool]

    def stop(self) -> StreamEnd | None:
        """The end that our own side decides, cheap enough for every tick."""
        if time.monotonic() >= self.deadline:
            return StreamEnd.DEADLINE
        if self.cancelled():
            return StreamEnd.CANCELLED
        if self.relay_ends():
            return StreamEnd.RELAY
        return StreamEnd.DISK_CAP if self.disk_full() else None


def _write(connection: socket.socket, dialogue: Dialogue) -> None:
    """Send what waits, as far as the engine takes it; a command that stopped listening is no error."""
    try:
        while piece := dialogue.waiting():
            dialogue.sent(connection.send(piece))
    except BlockingIOError:
        return
    except (BrokenPipeError, ConnectionResetError):
        dialogue.sent(len(dialogue.waiting()))


def _pump(
    connection: socket.socket,
    first: bytes,
    sink: _Demultiplexer,
    watch: _Watch,
    dialogue: Dialogue | None = None,
) -> StreamEnd:
    if first and not sink.feed(first):
        return StreamEnd.OUTPUT_CAP
    poller = select.poll()
    poller.register(connection, _READABLE)
    next_check, cut_off = time.monotonic() + _CHECK_S, float("inf")
    while True:
        stop = watch.stop()
        if stop is not None:
            return stop
        if dialogue is not None:
            if dialogue.over():
                return StreamEnd.TALK_OVER
            _write(connection, dialogue)
            poller.modify(connection, _READABLE | (select.POLLOUT if dialogue.waiting() else 0))
        now = time.monotonic()
        if now >= cut_off:
            return StreamEnd.EOF
        if now >= next_check:
            next_check = now + _CHECK_S
            if not watch.alive():
                return StreamEnd.CONTAINER_GONE
            if cut_off == float("inf") and watch.ended():
                cut_off = now + _AFTERMATH_S
        if not poller.poll(min(_TICK_MS, max(1, (watch.deadline - now) * 1000))):
            continue
        try:
            data = connection.recv(_READ)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            if dialogue is None:
                raise
            return StreamEnd.EOF  # what the command left unread; the engine is asked whether it is over
        if not data:
            return StreamEnd.EOF
        if not sink.feed(data):
            return StreamEnd.OUTPUT_CAP


def _await_end(watch: _Watch) -> StreamEnd:
    """After the stream closed: until the command itself is over."""
    pause_s = 0.005
    while not watch.ended():
        stop = watch.stop()
        if stop is not None:
            return stop
        time.sleep(min(pause_s, max(0.0, watch.deadline - time.monotonic())))
        pause_s = min(pause_s * 2, _CHECK_S / 4)
        if pause_s == _CHECK_S / 4 and not watch.alive():
            return StreamEnd.CONTAINER_GONE
    return StreamEnd.EOF


@dataclass(frozen=True)
class _Told:
    """What the engine says about a command; its exit code goes into `result`."""

    engine: Engine
    exec_id: str
    result: ExecResult

    def _ask(self) -> Mapping[str, Any]:
        with translated("exec_inspect"):
            found: Mapping[str, Any] = self.engine.api.exec_inspect(self.exec_id)
            return found

    def ended(self) -> bool:
        """Whether it is over."""
        found = self._ask()
        self.result.exit_code = None if found["Running"] else found["ExitCode"]
        self.result.never_began = not found["Pid"] and found["ExitCode"] in _NEVER_BEGAN
        return not found["Running"]

    def is_up(self) -> bool:
        """Whether it has begun, or is over already."""
        found = self._ask()
        return bool(found["Pid"]) or found["ExitCode"] is not None


def run_command(
    engine: Engine,
    container_id: str,
    command: Command,
    *,
    deadline: float,
    cap_bytes: int,
    still_running: Callable[[], bool],
    cancelled: Callable[[], bool] = lambda: False,
    guard: Guard | None = None,
    beside_full: Callable[[], bool] = lambda: False,
    relay_ends: Callable[[], bool] = lambda: False,
    dialogue: Dialogue | None = None,
) -> ExecResult:
    """Run `command`; `deadline` is on the monotonic clock, `cap_bytes` covers stdout and stderr together.

    `guard` watches over what the container holds, and is entered already; `beside_full` tells the same of
    what runs beside it. With a `dialogue` the command's standard input is open, and it decides what is
    said there. Raises `EngineCallError` when the engine refuses or the connection breaks before the stream
    opened.
    """
    started = time.monotonic()
    with translated("exec_create"):
        exec_id = engine.api.exec_create(
            container_id,
            list(command.argv),
            stdin=dialogue is not None,
            user=command.user,
            environment=dict(command.environment),
            workdir=command.workdir,
        )["Id"]
    result = ExecResult(StreamEnd.EOF, None, 0)
    told = _Told(engine, exec_id, result)
    disk_full: Callable[[], bool] = (lambda: guard.over() or beside_full()) if guard else beside_full
    watch = _Watch(deadline, cancelled, still_running, told.ended, disk_full, relay_ends)
    with guard.command(told.is_up) if guard else nullcontext(), translated("exec_start"):
        connection, first = _open_stream(engine, exec_id)
        with connection:
            result.end = _pump(
                connection, first, _Demultiplexer(result, cap_bytes, dialogue), watch, dialogue
            )
    if result.end is StreamEnd.EOF:
        result.end = _await_end(watch)
    if result.end is StreamEnd.EOF and disk_full():
        result.end = StreamEnd.DISK_CAP  # the guard's kill is what ended it
    if result.end is not StreamEnd.EOF:
        result.exit_code = None
    result.wall_ms = int((time.monotonic() - started) * 1000)
    return result
