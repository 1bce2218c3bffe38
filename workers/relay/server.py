"""The relay: lanes with their sockets, the providers behind them, one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from orchestrator.prices.sheet import PriceSheet
from workers.relay.config import LaneOrder, RelayConfig
from workers.relay.errors import RelayError
from workers.relay.handler import Handler
from workers.relay.lane import Lane
from workers.relay.redact import Redactor
from workers.relay.state import LaneState, LaneSummary
from workers.relay.upstream import Upstream

SOCKET_NAME: Final = "relay.sock"
_HEADER_LIMIT: Final = 1 << 16
_ANYBODY: Final = 0o666
_ENTERABLE: Final = 0o755
"""Mode of a lane's socket. Who may reach it is decided by its folder, which only the forwarder mounts."""


class UnknownLaneError(RelayError):
    """No lane of this name is open."""


class Relay:
    """Opens and closes lanes; use as an async context manager."""

    def __init__(self, config: RelayConfig, changed: Callable[[LaneState], None]) -> None:
        self._config = config
        self._changed = changed
        self._prices = PriceSheet.from_data(dict(config.prices))
        self._providers = {one.name: one for one in config.providers}
        self._redactor = Redactor(one.key for one in config.providers)
        self._lanes: dict[str, tuple[Lane, web.ServerRunner]] = {}
        self._upstream: Upstream

    async def __aenter__(self) -> Relay:
        self._upstream = Upstream(self._config.providers, self._config.idle_s, self._config.limits_dir)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(self.close(lane_id) for lane_id in list(self._lanes)))
        await self._upstream.close()

    async def open(self, order: LaneOrder) -> tuple[Path, str]:
        """Start to listen for a lane; returns the path of its socket and its token."""
        if order.lane_id in self._lanes:
            raise RelayError(f"lane {order.lane_id} is open already")
        lane = Lane(order, self._providers, self._prices, self._redactor, self._report)
        server = web.Server(
            Handler(lane, self._upstream),
            auto_decompress=False,
            access_log=None,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        runner = web.ServerRunner(server, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        order.socket_dir.mkdir(parents=True, exist_ok=True)
        os.chmod(order.socket_dir, _ENTERABLE)  # whatever the worker's umask; the folder around it is private
        path = order.socket_dir / SOCKET_NAME
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        await web.UnixSite(runner, str(path)).start()
        os.chmod(path, _ANYBODY)
        self._lanes[order.lane_id] = lane, runner
        return path, lane.token

    def renew(self, lane_id: str, calls_until: float | None) -> None:
        """Move the moment of the last call that may start; for a lane that is closed, nothing."""
        found = self._lanes.get(lane_id)
        if found is not None:
            found[0].calls_until = calls_until

    async def close(self, lane_id: str) -> LaneSummary:
        """End a lane: its token is dead at once, open calls are read to their end, then it is summed up."""
        lane, runner = self._lane(lane_id)
        lane.over = True
        del self._lanes[lane_id]
        await lane.drain(self._config.drain_s)
        await runner.cleanup()
        with contextlib.suppress(FileNotFoundError):
            (lane.order.socket_dir / SOCKET_NAME).unlink()
        return lane.close()

    def _lane(self, lane_id: str) -> tuple[Lane, web.ServerRunner]:
        found = self._lanes.get(lane_id)
        if found is None:
            raise UnknownLaneError(f"no lane {lane_id} is open")
        return found

    def _report(self, lane: Lane) -> None:
        self._changed(lane.state())
