"""A way to the real engine that can refuse, lie, cut a stream or strike at one request.

It stands between one worker and the engine's socket. Every request is passed on as it is, on a connection of
its own, but for those that a rule matches.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

_HEAD_END: Final = b"\r\n\r\n"
_MAX_HEAD: Final = 65_536
_PIECE: Final = 65_536
_WAIT_S: Final = 120.0


@dataclass
class Rule:
    """What happens to the first request whose `METHOD /path` (without the version) matches.

    Exactly one of: `refuse` (status, message) answers in the engine's place; `rewrite` changes the whole body
    of the answer, or gives None to wait for a later request; `cut` ends the connection after the answer's
    head; `before` is called with the request, and gives False to wait for a later one. `always` makes it hold
    for every such request.
    """

    request: str
    refuse: tuple[int, str] | None = None
    rewrite: Callable[[bytes], bytes | None] | None = None
    cut: bool = False
    before: Callable[[str], bool] | None = None
    always: bool = False
    used: bool = False


class EngineProxy:
    """`with EngineProxy(socket, rule) as host:` gives a worker's address; `rule.used` tells of a hit."""

    def __init__(self, engine_socket: str, rule: Rule) -> None:
        self._engine_socket = engine_socket
        self._rule = rule
        self._taking = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory(prefix="assize-proxy-")
        path = Path(self._folder.name) / "engine.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(128)
        self._thread = threading.Thread(target=self._accept, name="engine-proxy", daemon=True)
        self._thread.start()
        return f"unix://{path}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        with self._taking:
            for one in self._open:
                _shut(one)
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
            with self._taking:
                self._open |= {client, engine}
            try:
                self._exchange(client, engine)
            except OSError:
                pass  # one side went away: so does the other
            finally:
                with self._taking:
                    self._open -= {client, engine}

    def _exchange(self, client: socket.socket, engine: socket.socket) -> None:
        head, rest = _read_head(client)
        if not head:
            return
        line, _, fields = head.partition(b"\r\n")
        method, path = line.split(b" ")[:2]
        request = f"{method.decode()} {re.sub(r'^/v[0-9.]+', '', path.decode())}"
        rule = self._matching(request)
        if rule is not None:
            rest = _whole(client, fields, rest)
        if rule is not None and rule.refuse is not None:
            _answer(client, rule.refuse[0], json.dumps({"message": rule.refuse[1]}).encode())
            return
        engine.connect(self._engine_socket)
        if b"upgrade:" not in fields.lower():
            # One request a connection: then an answer ends with it, whatever its framing.
            fields = re.sub(rb"(?im)^connection:[^\r\n]*\r?\n?", b"", fields)
            fields = b"Connection: close" + (b"\r\n" + fields if fields else b"")
        engine.sendall(line + b"\r\n" + fields + _HEAD_END + rest)
        if rule is not None and rule.cut:
            answer, _ = _read_head(engine)
            client.sendall(answer + _HEAD_END)
            return
        if rule is not None and rule.rewrite is not None:
            self._rewritten(client, engine, rule)
            return
        _pump(client, engine)

    def _matching(self, request: str) -> Rule | None:
        rule = self._rule
        with self._taking:
            if (rule.used and not rule.always) or not re.search(rule.request, request):
                return None
            if rule.before is not None:
                rule.used = rule.before(request)
                return None
            rule.used = rule.rewrite is None
        return rule

    def _rewritten(self, client: socket.socket, engine: socket.socket, rule: Rule) -> None:
        head, body = _read_head(engine)
        while piece := engine.recv(_PIECE):
            body += piece
        if b"transfer-encoding: chunked" in head.lower():
            body = _unchunked(body)
        assert rule.rewrite is not None
        with self._taking:
            changed = None if rule.used else rule.rewrite(body)
            rule.used = rule.used or changed is not None
        _answer(client, int(head.split(b" ")[1]), body if changed is None else changed)


def _read_head(source: socket.socket) -> tuple[bytes, bytes]:
    """(head without its end, what came after it)."""
    source.settimeout(_WAIT_S)
    data = b""
    while _HEAD_END not in data:
        piece = source.recv(_PIECE)
        if not piece or len(data) > _MAX_HEAD:
            return b"", b""
        data += piece
    head, _, rest = data.partition(_HEAD_END)
    return head, rest


def _whole(client: socket.socket, fields: bytes, begun: bytes) -> bytes:
    """All of a request's body, whose length it tells."""
    found = re.search(rb"(?im)^content-length: *([0-9]+)", fields)
    missing = (int(found[1]) if found else 0) - len(begun)
    while missing > 0 and (piece := client.recv(min(missing, _PIECE))):
        begun, missing = begun + piece, missing - len(piece)
    return begun


def _answer(client: socket.socket, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Drill\r\nContent-Type: application/json\r\nConnection: close\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _unchunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if not length:
            break
        body, data = body + data[:length], data[length + 2 :]
    return body


def _pump(client: socket.socket, engine: socket.socket) -> None:
    """Both ways until the engine has said everything."""
    client.settimeout(None)
    engine.settimeout(None)
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, engine)
        ready.register(engine, selectors.EVENT_READ, client)
        while True:
            for key, _ in ready.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                data = source.recv(_PIECE)
                if data:
                    target.sendall(data)
                elif source is engine:
                    return
                else:
                    ready.unregister(client)
                    engine.shutdown(socket.SHUT_WR)


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # closed already
