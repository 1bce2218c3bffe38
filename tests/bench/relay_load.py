"""The client side of `bench_relay.py`: raw HTTP/1.1 over kept connections, every answer checked.

What is read is looked at only after the clock has stopped, so that the client's own work disturbs least.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.bench.relay_provider import CHUNKS, MODEL, PACED
else:  # a script's neighbour, see `make bench`
    from relay_provider import CHUNKS, MODEL, PACED

_STAMP: Final = re.compile(rb"@(\d+)@")
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_USAGE: Final = re.compile(rb'"completion_tokens": ?200\b')
_END: Final = b"\r\n0\r\n\r\n"
_READ_BYTES: Final = 1 << 18
_PATIENCE_S: Final = 60.0
_SYSTEM: Final = "lorem ipsum dolor sit amet " * 80


@dataclass(frozen=True)
class Target:
    """Where calls go, a port of loopback or a Unix socket, and the token that they carry."""

    place: int | Path
    token: str

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection."""
        if isinstance(self.place, Path):
            return await asyncio.open_unix_connection(self.place)
        return await asyncio.open_connection("127.0.0.1", self.place)


@dataclass(frozen=True)
class Work:
    """So many calls, `parallel` at a time."""

    calls: int
    parallel: int = 1
    stream: bool = False
    paced: bool = False

    def request(self, token: str) -> bytes:
        """One call: 2 KB of prompt, an output maximum, and the wish for usage when it streams."""
        asked = {
            "model": MODEL,
            "max_tokens": 400,
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": PACED if self.paced else "go"},
            ],
        }
        if self.stream:
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
        body = json.dumps(asked).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass
class Measured:
    """What a piece of work took. `lags_ms` are the ages of the paced chunks when the client had them."""

    wall_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)
    bad: int = 0

    @property
    def per_second(self) -> float:
        """Calls per second."""
        return len(self.latencies_ms) / self.wall_s

    @property
    def p50_ms(self) -> float:
        """The median call."""
        return statistics.median(self.latencies_ms)


async def drive(target: Target, work: Work) -> Measured:
    """Do the work over `work.parallel` connections that are open before the clock starts."""
    found, request, left = Measured(), work.request(target.token), iter(range(work.calls))
    connections = [await target.connect() for _ in range(work.parallel)]

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: Iterator[int]) -> None:
        for _ in left:
            began = time.perf_counter()
            writer.write(request)
            pieces = await _answer(reader)
            found.latencies_ms.append(1e3 * (time.perf_counter() - began))
            whole = b"".join(piece for _, piece in pieces)
            found.bad += not _good(whole, work.stream)
            if work.paced:
                found.lags_ms += _lags_ms(pieces)

    began = time.perf_counter()
    async with asyncio.timeout(_PATIENCE_S):
        await asyncio.gather(*(client(reader, writer, left) for reader, writer in connections))
    found.wall_s = time.perf_counter() - began
    for _, writer in connections:
        writer.close()
        await writer.wait_closed()
    return found


async def _answer(reader: asyncio.StreamReader) -> list[tuple[int, bytes]]:
    """The bytes of one answer, each piece with the instant when it was there (monotonic nanoseconds)."""
    head = await reader.readuntil(b"\r\n\r\n")
    pieces = [(time.monotonic_ns(), head)]
    length = _LENGTH.search(head)
    if length is not None:
        pieces.append((0, await reader.readexactly(int(length[1]))))
        return pieces
    tail = head
    while not tail.endswith(_END) and (piece := await reader.read(_READ_BYTES)):
        pieces.append((time.monotonic_ns(), piece))
        tail = (tail + piece)[-len(_END) :]
    return pieces


def _good(whole: bytes, stream: bool) -> bool:
    """Status 200, the usage, and of a stream every chunk and its end."""
    good = whole.startswith(b"HTTP/1.1 200 ") and _USAGE.search(whole) is not None
    if stream:
        good = good and whole.count(b'"finish_reason"') == CHUNKS and whole.count(b"data: [DONE]\n\n") == 1
        good = good and whole.endswith(_END)
    return good


def _lags_ms(pieces: list[tuple[int, bytes]]) -> list[float]:
    return [(at - int(stamp)) / 1e6 for at, piece in pieces for stamp in _STAMP.findall(piece)]
