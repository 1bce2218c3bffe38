"""Serving a script until told to stop: on loopback, or on a Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from workers.rehearsal.errors import PlaceRefusedError
from workers.rehearsal.place import LOOPBACK, Address, checked_host
from workers.rehearsal.script import load_script
from workers.rehearsal.server import build_app


async def serve(
    script_path: Path,
    *,
    ready: Callable[[Address], None],
    stop: asyncio.Event,
    socket_path: Path | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    key: str | None = None,
) -> None:
    """Serve the script until `stop` is set; `ready` is called once with the address.

    With `socket_path` nothing listens on a port; port 0 is any free one. `ScriptError`,
    `PlaceRefusedError` when it cannot listen there.
    """
    app = build_app(load_script(script_path), key)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        if socket_path is not None:
            address = await _on_socket(runner, socket_path)
        else:
            address = await _on_port(runner, checked_host(host), port)
        ready(address)
        await stop.wait()
    finally:
        await runner.cleanup()


async def _on_socket(runner: web.AppRunner, path: Path) -> Address:
    try:
        await web.UnixSite(runner, path).start()
    except OSError as error:
        raise PlaceRefusedError(f"cannot listen at {path}: {error}") from None
    return Address("http://localhost", str(path))


async def _on_port(runner: web.AppRunner, host: str, port: int) -> Address:
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, OverflowError) as error:
        raise PlaceRefusedError(f"cannot listen at port {port} of {host}: {error}") from None
    bound = runner.addresses[0][1]
    return Address(f"http://{f'[{host}]' if ':' in host else host}:{bound}")
