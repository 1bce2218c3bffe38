"""Concurrency and request rate of one provider, for all attempts of this host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from workers.relay.config import Provider
from workers.relay.host_limits import HostLimits

_MINUTE_S: Final = 60.0
_FREE: Final[AbstractAsyncContextManager[None]] = contextlib.nullcontext()


class Gate:
    """Waits in order. With `shared`, a folder of the host, its other relays are waited for too.

    The relay's own places come first: what its calls alone would use up never needs a look at the host's.
    """

    def __init__(self, provider: Provider, shared: Path | None = None) -> None:
        self._places: AbstractAsyncContextManager[object] = (
            asyncio.Semaphore(provider.max_parallel) if provider.max_parallel else _FREE
        )
        rate = provider.requests_per_minute
        self._gap_s = _MINUTE_S / rate if rate else 0.0
        self._next = 0.0
        self._limited = bool(provider.max_parallel or rate)
        self._host = HostLimits(shared, provider) if shared is not None and self._limited else None

    def place(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn and keep it while the call runs; `OSError` when the host's folder is unusable."""
        return self._waited() if self._limited else _FREE

    @contextlib.asynccontextmanager
    async def _waited(self) -> AsyncIterator[None]:
        async with self._places:
            if self._host is not None:
                async with self._host.place():
                    yield
                return
            now = asyncio.get_running_loop().time()
            start, self._next = max(now, self._next), max(now, self._next) + self._gap_s
            if start > now:
                await asyncio.sleep(start - now)
            yield
