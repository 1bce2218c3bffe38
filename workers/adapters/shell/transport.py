"""One JSON call over the relay's Unix socket: HTTP/1.1, a connection per call, no wait beyond the bounds."""

from __future__ import annotations

import http.client
import json
import math
import select
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from workers.adapters.shell.bounds import TICK_S, Bounds
from workers.adapters.shell.errors import LinkBrokenError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

ANSWER_LIMIT_BYTES: Final = 32 << 20
MAX_DEPTH: Final = 100
"""Nesting of an answer: what goes back into the history stays below the relay's own limit of 128."""

OURS: Final[Mapping[str, str]] = {
    "content-type": "application/json",
    "accept": "application/json",
    "user-agent": "assize-shell/1",
}


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and the JSON object of the body; None when it is none."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None


class Link(Protocol):
    """Where model calls go."""

    def post(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds) -> Answer:
        """Send one call and wait for the whole answer.

        Raises `LinkBrokenError` when there is none, `StoppedError` or `DeadlinePassedError` by `bounds`.
        """


class RelayClient:
    """The `Link` to the lane whose socket is at `socket_path`."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    def post(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds) -> Answer:
        """See `Link`. `path` is percent-encoded already."""
        connection = _Connection(self._socket_path, bounds)
        try:
            connection.request("POST", path, encoded(body), {**OURS, **headers})
            with connection.getresponse() as response:
                return read_answer(response, ANSWER_LIMIT_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise LinkBrokenError(f"no whole answer from the relay ({type(error).__name__})") from None
        finally:
            connection.close()


def encoded(body: Mapping[str, Any]) -> bytes:
    """The bytes of a call's body."""
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A model can print half of a surrogate pair, which nothing on the way would accept.
    return raw.encode("utf-8", "replace")


def read_answer(response: http.client.HTTPResponse, limit_bytes: int) -> Answer:
    """The whole answer; without a body where it is longer than `limit_bytes`.

    Raises `OSError` or `HTTPException` for one that breaks off.
    """
    if response.length is None and not response.chunked:
        raise http.client.HTTPException("an answer without an end of its own, as of a head that breaks off")
    raw = response.read(limit_bytes + 1)
    fits = len(raw) <= limit_bytes
    if fits and response.length:  # a read with a limit does not complain about a body that breaks off
        raise http.client.IncompleteRead(raw, response.length)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, parsed(raw) if fits else None)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number too large for a double")
    return value


def parsed(raw: bytes) -> Mapping[str, Any] | None:
    """The JSON object in `raw` that can be sent back as it is; None for everything else."""
    try:
        found = json.loads(raw, parse_constant=_constant, parse_float=_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _shallow(found) else None


def _shallow(document: dict[str, Any]) -> bool:
    """Whether lists and objects are nested at most `MAX_DEPTH` deep; level by level, so without recursion."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        below = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
        level = [item for item in below if isinstance(item, dict | list)]
        if not level:
            return True
    return False


class _Connection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path, bounds: Bounds) -> None:
        super().__init__("relay")
        self._socket_path = socket_path
        self._bounds = bounds

    def connect(self) -> None:
        self.sock = _BoundedSocket(self._bounds)
        self.sock.connect(str(self._socket_path))


class _BoundedSocket(socket.socket):
    """A Unix socket that waits in ticks, so that a drip-fed answer or a silent relay outlasts no deadline."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.setblocking(False)
        self._bounds = bounds

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        while True:
            self._ready(select.POLLIN)
            try:
                return super().recv_into(buffer, nbytes, flags)
            except BlockingIOError:
                continue

    def sendall(self, data: ReadableBuffer, flags: int = 0) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            self._ready(select.POLLOUT)
            try:
                rest = rest[self.send(rest, flags) :]
            except BlockingIOError:
                continue

    def _ready(self, event: int) -> None:
        poller = select.poll()
        poller.register(self, event)
        while True:
            self._bounds.check()
            if poller.poll(math.ceil(min(TICK_S, self._bounds.left_s()) * 1000)):
                return
