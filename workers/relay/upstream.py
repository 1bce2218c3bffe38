"""The relay's client side: one connection pool per provider, shared limits, nothing clever.

No retries (a hidden one would hide faults and could bill twice), no redirects, no proxy settings of the
environment, no decompression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import aiohttp
import yarl

from workers.relay.config import Provider
from workers.relay.errors import RelayError
from workers.relay.gate import Gate

_CONNECT_S: Final = 10.0
_KEEPALIVE_S: Final = 15.0  # shorter than any provider's own, so that a pooled connection is still open
_HEADER_LIMIT: Final = 1 << 16
_OURS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class UnreachableError(RelayError):
    """No answer from the provider. `reached` says whether the request may have got there."""

    def __init__(self, problem: str, *, reached: bool) -> None:
        super().__init__(problem)
        self.reached = reached


class Upstream:
    """Sessions and gates of all providers; made inside the running event loop."""

    def __init__(self, providers: Iterable[Provider], idle_s: float, limits_dir: Path | None = None) -> None:
        self.gates: Mapping[str, Gate]
        listed = list(providers)
        self.gates = {one.name: Gate(one, limits_dir) for one in listed}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s)
        self._sessions = {one.name: self._session(one, timeout) for one in listed}

    @staticmethod
    def _session(provider: Provider, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        connector: aiohttp.BaseConnector
        if provider.socket_path is not None:
            connector = aiohttp.UnixConnector(provider.socket_path, limit=0, keepalive_timeout=_KEEPALIVE_S)
        else:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S)
        return aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_OURS,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )

    async def send(
        self, provider: Provider, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> aiohttp.ClientResponse:
        """POST and return the answer once its head is there; raises `UnreachableError`."""
        session = self._sessions[provider.name]
        try:
            return await session.post(
                yarl.URL(url, encoded=True), data=body, headers=headers, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachableError(f"no connection ({type(error).__name__})", reached=False) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"no answer ({type(error).__name__})", reached=True) from None

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()
