"""A provider on loopback for `bench_relay.py`: canned chat completions, as cheap to serve as Python can.

`python relay_provider.py` prints its port and serves until its standard input ends. A request that does not
stream gets one small JSON answer. One that streams gets `CHUNKS` chunks, each an HTTP chunk and a write of
its own, then usage and `[DONE]`; if its text says `PACED` they come `PACE_S` apart, and each carries the
instant of its writing (CLOCK_MONOTONIC in nanoseconds, the same clock in every process).
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

CHUNKS: Final = 200
PACE_S: Final = 0.005
PACED: Final = "paced"
MODEL: Final = "bench-model-1"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_USAGE: Final = {
    "prompt_tokens": 1200,
    "completion_tokens": 200,
    "total_tokens": 1400,
    "prompt_tokens_details": {"cached_tokens": 1024},
}


def _document() -> bytes:
    message = {"role": "assistant", "content": "lorem ipsum dolor sit amet " * 20}
    body = json.dumps(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": _USAGE,
        }
    ).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


def _chunk(choices: list[Mapping[str, Any]], usage: Mapping[str, Any] | None) -> bytes:
    data = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": choices,
        "usage": usage,
    }
    return _framed(b"data: %b\n\n" % json.dumps(data).encode())


def _delta(text: str, finish: str | None = None) -> bytes:
    return _chunk([{"index": 0, "delta": {"content": text}, "finish_reason": finish}], None)


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_DOCUMENT: Final = _document()
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_DELTAS: Final = [_delta(f" token {number:04d}", None) for number in range(CHUNKS - 1)] + [_delta("", "stop")]
_END: Final = _chunk([], _USAGE) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Provider(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self) -> None:
        self._given = bytearray()
        self._running: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._given += data
        head, found, body = self._given.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if found else None
        if length is None or len(body) < int(length[1]):
            return
        self._given.clear()
        self._answer(json.loads(body))

    def _answer(self, asked: Mapping[str, Any]) -> None:
        if not asked.get("stream"):
            self._transport.write(_DOCUMENT)
        elif PACED in asked["messages"][-1]["content"]:
            task = asyncio.ensure_future(self._paced())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        else:
            self._transport.write(_HEAD)
            for delta in _DELTAS:
                self._transport.write(delta)
            self._transport.write(_END)

    async def _paced(self) -> None:
        self._transport.write(_HEAD)
        for _ in range(CHUNKS):
            await asyncio.sleep(PACE_S)
            self._transport.write(_delta(f"@{time.monotonic_ns()}@"))
        self._transport.write(_END)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Provider, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
