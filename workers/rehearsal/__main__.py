"""`python -m workers.rehearsal`: the scripted provider as a process of its own.

Its one line of output is the address as JSON; it ends on SIGTERM, SIGINT, or with its parent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from workers.rehearsal.errors import RehearsalError
from workers.rehearsal.place import LOOPBACK, Address
from workers.rehearsal.script import find_script
from workers.rehearsal.serving import serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; exit status 0, or 2 with one sentence on standard error."""
    options = _parser().parse_args(arguments)
    os.umask(0o077)
    try:
        key = None if options.key_file is None else _key(options.key_file)
        asyncio.run(_until_stopped(options, key))
    except RehearsalError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.rehearsal", description="A scripted provider.")
    parser.add_argument("--script", required=True, metavar="FILE", help="a script, or a bundled one's name")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--socket", type=Path, metavar="PATH", help="listen on a Unix socket")
    place.add_argument("--port", type=int, metavar="N", help="listen on a port of loopback; 0 for any")
    parser.add_argument("--host", default=LOOPBACK, help="another loopback address")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="the key that callers need")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    return parser


def _key(path: Path) -> str:
    try:
        key = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RehearsalError(f"key file {path} cannot be read as text ({type(error).__name__})") from None
    if not key:
        raise RehearsalError(f"key file {path} is empty")
    return key


async def _until_stopped(options: argparse.Namespace, key: str | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.with_parent:
        _watch_parent(loop, stop)
    await serve(
        find_script(options.script),
        ready=_announce,
        stop=stop,
        socket_path=options.socket,
        host=options.host,
        port=options.port or 0,
        key=key,
    )


def _announce(address: Address) -> None:
    sys.stdout.write(json.dumps(asdict(address)) + "\n")
    sys.stdout.flush()


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set `stop` at the end of standard input; a thread, since standard input may be any kind of file."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
