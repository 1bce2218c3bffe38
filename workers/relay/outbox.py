"""What a call has for its client: filled by the reader, emptied by the request handler, never blocking.

The reader of the provider's answer must not wait for the client: a client that stalls or hangs up would
then cost us the usage at the end of the stream.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

LIMIT_BYTES: Final = 64 << 20
"""A client that lets more than this pile up has stopped reading; its answer is cut."""


@dataclass(frozen=True)
class Head:
    """Status and headers of the answer; `body` is the whole of it, None when it follows in pieces."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | None


class Outbox:
    """One head, then bytes, then an end that is clean or not."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._ended = False
        self.broken = False

    @property
    def begun(self) -> bool:
        """Whether there is a head."""
        return self._head is not None

    def begin(self, head: Head) -> None:
        """Give the head; everything, when the body is in it. Only the first one counts."""
        if self._head is None:
            self._head = head
            self._wake.set()
        if head.body is not None:
            self.end(broken=False)

    def put(self, data: bytes) -> None:
        """Add bytes for the client."""
        if not data or self.broken:
            return
        self._parts.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > LIMIT_BYTES:
            self._parts.clear()
            self.end(broken=True)
        self._wake.set()

    def end(self, *, broken: bool) -> None:
        """No more bytes; `broken` tells the client by a connection that ends too early."""
        self._ended = True
        self.broken = self.broken or broken
        self._wake.set()

    async def head(self) -> Head | None:
        """The head, waiting for it; None when the call ended without one."""
        while self._head is None and not self._ended:
            await self._news()
        return self._head

    async def take(self) -> bytes | None:
        """Everything that is there, waiting for the first byte; None at the end."""
        while not self._parts:
            if self._ended:
                return None
            await self._news()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._waiting_bytes = 0
        return data

    async def _news(self) -> None:
        self._wake.clear()
        await self._wake.wait()
