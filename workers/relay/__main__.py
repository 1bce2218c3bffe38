"""The relay process: configuration and commands on standard input, answers and states on standard output.

One JSON object a line. First line in: a `RelayConfig`. Then `{"id", "do": "open"|"renew"|"close", ...}`,
answered by `{"id", "ok": ...}` or `{"id", "error": "..."}`; in between `{"event": "state", "state": ...}`.
The end of standard input means that the worker is gone: every lane is closed and the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import resource
import sys
from collections.abc import Mapping
from typing import Any, Final

import uvloop
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

from workers.relay.config import LaneOrder, RelayConfig
from workers.relay.server import Relay
from workers.relay.state import LaneState

_LINE_LIMIT: Final = 64 << 20
_FILES: Final = 1 << 16
_logger = logging.getLogger(__name__)


class _Control:
    """Reads commands and writes answers; every command is a task of its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def write(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        view = memoryview(line)
        with contextlib.suppress(BrokenPipeError):  # the worker is gone: standard input ends as well
            while view:
                view = view[os.write(sys.stdout.fileno(), view) :]

    def state(self, state: LaneState) -> None:
        self.write({"event": "state", "state": state.as_data()})

    async def serve(self, relay: Relay, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            task = asyncio.create_task(self._answer(relay, json.loads(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer(self, relay: Relay, asked: Mapping[str, Any]) -> None:
        try:
            answer = {"id": asked["id"], "ok": await _do(relay, asked)}
        except Exception as error:  # the worker decides what a failed command means
            _logger.exception("command %s failed", asked.get("do"))
            answer = {"id": asked["id"], "error": f"{type(error).__name__}: {error}"}
        self.write(answer)


async def _do(relay: Relay, asked: Mapping[str, Any]) -> Any:
    if asked["do"] == "open":
        path, token = await relay.open(LaneOrder.from_data(asked["lane"]))
        return {"socket": str(path), "token": token}
    if asked["do"] == "renew":
        relay.renew(asked["lane_id"], asked["calls_until"])
        return {}
    return (await relay.close(asked["lane_id"])).as_data()


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    return reader


async def _main() -> None:
    lines = await _standard_input()
    first = await lines.readline()
    if not first:
        return
    control = _Control()
    async with Relay(RelayConfig.from_data(json.loads(first)), control.state) as relay:
        control.write({"event": "ready", "pid": os.getpid()})
        await control.serve(relay, lines)


def _of_the_house(record: logging.LogRecord) -> bool:
    """Whether a failed request is worth a line. Bad requests and clients that hang up are what agents do,
    and would let them write on the operator's terminal without end."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (HttpProcessingError, RequestPayloadError, ConnectionError))


def _allow_files() -> None:
    """Every open call takes two files; with too few, one lane could shut the others out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """Run until standard input ends."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("aiohttp.server").addFilter(_of_the_house)
    _allow_files()
    # The objects that are alive now live for ever; sweeping them again would delay calls.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())


if __name__ == "__main__":
    main()
