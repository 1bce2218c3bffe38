"""A provider on loopback that keeps what it is sent and answers as the request's text asks.

The last message's first word: a number is an error status; `cut` breaks a stream off; `hold NAME` and
`late NAME` wait at the gate of that name, in the middle of a stream or before it; anything else is answered.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
GATE_S: Final = 120.0


@dataclass(frozen=True)
class Taken:
    """One request as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """The last message's text; empty when there is none."""
        try:
            return str(json.loads(self.body)["messages"][-1]["content"])
        except (ValueError, LookupError, TypeError):
            return ""

    def header(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for given, value in self.headers if given.lower() == name]


@dataclass(frozen=True)
class Answer:
    """What to send; `parts` go out one by one, and a `cut` answer ends without its proper end."""

    status: int = 200
    parts: Iterator[bytes] | tuple[bytes, ...] = ()
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    cut: bool = False


@dataclass
class Gate:
    """Where a request waits: `arrived` is set by the provider, `go` by the test."""

    arrived: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        self.arrived.set()
        self.go.wait(GATE_S)


def error(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """An error in OpenAI's shape."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None, "param": None}})
    return Answer(status, (body.encode(),), (("content-type", "application/json"), *headers))


def completion(text: str) -> dict[str, Any]:
    """A whole chat answer with its usage."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "model": "served", "choices": [choice], "usage": USAGE}


def chunk(text: str | None) -> bytes:
    """One event of a chat stream; None makes the one with the usage."""
    base = {"id": "c", "object": "chat.completion.chunk", "model": "served"}
    if text is None:
        return _event({**base, "choices": [], "usage": USAGE})
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return _event({**base, "choices": [delta], "usage": None})


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def streamed(parts: Iterator[bytes], *, cut: bool = False) -> Answer:
    """An answer as server-sent events."""
    return Answer(200, parts, (("content-type", "text/event-stream"),), cut)


class Provider:
    """Serves in threads until `close`; `answer` may be replaced."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.gates: defaultdict[str, Gate] = defaultdict(Gate)
        self.answer: Callable[[Taken], Answer] = self.usual
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        """As `providers.toml` wants it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def usual(self, taken: Taken) -> Answer:
        """The answer that the request's text asks for."""
        word, _, rest = taken.text.partition(" ")
        if word.isdigit():
            return error(int(word), f"asked for {word}")
        if word == "cut":
            return streamed(iter((chunk("begun"),)), cut=True)
        if word == "hold":
            return streamed(self._held(self.gates[rest]))
        if word == "late":
            self.gates[rest].wait()
        if b'"stream":true' in taken.body.replace(b" ", b""):
            return streamed(iter((chunk("hello"), chunk(None), b"data: [DONE]\n\n")))
        return Answer(parts=(json.dumps(completion("hello")).encode(),))

    @staticmethod
    def _held(gate: Gate) -> Iterator[bytes]:
        yield chunk("begun")
        gate.wait()
        yield chunk(None)
        yield b"data: [DONE]\n\n"

    def texts(self) -> list[str]:
        """The texts of all requests, in order of arrival."""
        return [one.text for one in self.taken]

    def close(self) -> None:
        """Let everything go and end."""
        for gate in list(self.gates.values()):
            gate.go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A relay that was killed leaves its connections; nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Provider

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        taken = Taken(self.command, self.path, list(self.headers.items()), body)
        self.owner.taken.append(taken)
        answer = self.owner.answer(taken)
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in answer.parts:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.flush()
        if answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve
