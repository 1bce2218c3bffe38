"""The reference agent's HTTP client against a real server on a Unix socket."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.adapters.shell import transport as module
from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.errors import DeadlinePassedError, LinkBrokenError, StoppedError
from workers.adapters.shell.transport import MAX_DEPTH, RelayClient, parsed
from workers.relay.wire.body import parse_body

FAR_S = 60.0


class Peer:
    """Takes one connection: reads the request, sends `answer`, then closes, or keeps silent for good."""

    def __init__(self, path: Path, answer: bytes, *, silent: bool = False, deaf: bool = False) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._answer, self._silent, self._deaf = answer, silent, deaf
        self.request = b""
        self.taken = threading.Event()
        self.hung_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            if not self._deaf:
                self._read(connection)
            self.taken.set()
            connection.sendall(self._answer)
            if self._silent or self._deaf:
                poller = select.poll()
                poller.register(connection, select.POLLHUP)
                poller.poll()
        self.hung_up.set()

    def _read(self, connection: socket.socket) -> None:
        while b"\r\n\r\n" not in self.request:
            self.request += connection.recv(1 << 16)
        head, _, body = self.request.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
        while len(body) < int(fields[b"content-length"]):
            more = connection.recv(1 << 16)
            self.request += more
            body += more

    def close(self) -> None:
        self._listener.close()
        self._thread.join(10)
        assert not self._thread.is_alive()


Serve = Callable[..., Peer]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "relay.sock"


@pytest.fixture
def serve(place: Path) -> Iterator[Serve]:
    peers: list[Peer] = []

    def start(answer: bytes, **how: bool) -> Peer:
        peers.append(Peer(place, answer, **how))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


def bounds(left_s: float = FAR_S, stop: Callable[[], bool] = lambda: False) -> Bounds:
    return Bounds(time.monotonic() + left_s, stop)


def ok(body: bytes, *extra: str) -> bytes:
    head = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join([*head, "", ""]).encode() + body


def test_a_call_and_its_answer(place: Path, serve: Serve) -> None:
    """Path, headers and body as given; status, headers in lower case and the object come back."""
    peer = serve(ok(b'{"a": "\xc3\xa9"}', "Retry-After: 3"))
    answer = RelayClient(place).post("/v1/x?y=1", {"x-api-key": "tok"}, {"q": "é"}, bounds())
    assert (answer.status, answer.headers["retry-after"], answer.body) == (200, "3", {"a": "é"})
    head, _, body = peer.request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x?y=1 HTTP/1.1\r\n")
    assert b"\r\nx-api-key: tok" in head and b"\r\ncontent-type: application/json" in head
    assert json.loads(body) == {"q": "é"}


def test_a_large_body_arrives_whole_both_ways(place: Path, serve: Serve) -> None:
    """Larger than any socket's buffer."""
    text = "x" * 3_000_000
    peer = serve(ok(json.dumps({"text": text}).encode()))
    answer = RelayClient(place).post("/", {}, {"text": text}, bounds())
    assert answer.body == {"text": text}
    assert json.loads(peer.request.partition(b"\r\n\r\n")[2]) == {"text": text}


def test_a_chunked_answer(place: Path, serve: Serve) -> None:
    """HTTP/1.1 as the relay may speak it."""
    serve(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n')
    assert RelayClient(place).post("/", {}, {}, bounds()).body == {"a": 1}


def test_half_a_surrogate_pair_is_sent_as_a_question_mark(place: Path, serve: Serve) -> None:
    """The relay refuses a body with one, and a model can print one."""
    peer = serve(ok(b"{}"))
    RelayClient(place).post("/", {}, {"text": "a\ud83d"}, bounds())
    assert parse_body(peer.request.partition(b"\r\n\r\n")[2]) == {"text": "a?"}


BROKEN = {
    "nothing": b"",
    "half a status line": b"HTTP/1.1 2",
    "no HTTP": b"hello\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": ok(b'{"a": 1}')[:-3],
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_an_answer_that_breaks_off_is_none(name: str, place: Path, serve: Serve) -> None:
    """Whatever was there of it."""
    serve(BROKEN[name])
    with pytest.raises(LinkBrokenError):
        RelayClient(place).post("/", {}, {}, bounds())


def test_nobody_listening(place: Path) -> None:
    """No socket, or one that nobody serves any more."""
    with pytest.raises(LinkBrokenError, match="FileNotFoundError"):
        RelayClient(place).post("/", {}, {}, bounds())
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with pytest.raises(LinkBrokenError, match="ConnectionRefusedError"):
        RelayClient(place).post("/", {}, {}, bounds())


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", ok(b'{"a": 1}')[:-3]])
def test_a_silent_relay_outlasts_no_deadline(sent: bytes, place: Path, serve: Serve) -> None:
    """Before the head, in the head, in the body."""
    peer = serve(sent, silent=True)
    with pytest.raises(DeadlinePassedError):
        RelayClient(place).post("/", {}, {}, bounds(0.3))
    assert peer.hung_up.wait(10)


def test_a_cancel_ends_the_wait_for_an_answer(place: Path, serve: Serve) -> None:
    """The connection is closed with it."""
    peer = serve(b"", silent=True)
    with pytest.raises(StoppedError):
        RelayClient(place).post("/", {}, {}, bounds(stop=peer.taken.is_set))
    assert peer.hung_up.wait(10)


def test_a_cancel_ends_the_sending_to_a_relay_that_does_not_read(place: Path, serve: Serve) -> None:
    """Nothing takes the body, so the buffers fill up."""
    peer = serve(b"", deaf=True)
    with pytest.raises(StoppedError):
        RelayClient(place).post("/", {}, {"text": "x" * 3_000_000}, bounds(stop=peer.taken.is_set))
    assert peer.hung_up.wait(10)


def test_an_answer_beyond_the_limit_has_no_body(
    place: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read to its end."""
    monkeypatch.setattr(module, "ANSWER_LIMIT_BYTES", 100)
    serve(ok(json.dumps({"text": "x" * 100}).encode()))
    answer = RelayClient(place).post("/", {}, {}, bounds())
    assert (answer.status, answer.body) == (200, None)


UNREADABLE = {
    "no JSON": b"<html>",
    "empty": b"",
    "a list": b"[]",
    "not UTF-8": b'{"a": "\xff"}',
    "NaN": b'{"a": NaN}',
    "infinity by size": b'{"a": 1e999}',
    "too many digits": b'{"a": ' + b"9" * 5000 + b"}",
    "bottomless": b'{"a": ' + b"[" * 100_000,
    "too deep to go back": b'{"a": ' * MAX_DEPTH + b"[]" + b"}" * MAX_DEPTH,
}


@pytest.mark.parametrize("name", list(UNREADABLE))
def test_bodies_that_cannot_go_back_into_a_request(name: str) -> None:
    """None, never an exception."""
    assert parsed(UNREADABLE[name]) is None


def test_what_is_read_the_relay_takes_back() -> None:
    """The deepest answer that is accepted passes the relay's own limit inside a history."""
    deepest: Any = parsed(b'{"a": ' * (MAX_DEPTH - 1) + b"[]" + b"}" * (MAX_DEPTH - 1))
    assert deepest is not None
    body = {"messages": [{"role": "assistant", "content": [deepest]}]}
    assert parse_body(json.dumps(body).encode()) == body
