"""The line of JSON by which our own containers in a pod say what they found, read off the engine's log."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from workers.errors import EngineCallError, WorkerError
from workers.sandbox.client import Engine, translated

PREFLIGHT_S: Final = 15.0
_MAX_FRAME_BYTES: Final = 1 << 16
_ERROR_KEPT: Final = 500


class PodError(WorkerError):
    """The pod is not what it must be: `problem` says why, `preflight` is what the forwarder said."""

    def __init__(self, problem: str, preflight: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"pod: {problem}")
        self.problem = problem
        self.preflight = preflight


def _skip_head(stream: IO[bytes]) -> None:
    status = stream.readline(_MAX_FRAME_BYTES).split()[1:2]
    while stream.readline(_MAX_FRAME_BYTES).strip():
        pass
    if status != [b"200"]:
        raise EngineCallError("logs", "APIError", stream.read(_ERROR_KEPT).decode("utf-8", "replace"))


def _frames(stream: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    """(is it stderr, content) of every frame of the engine's log stream."""
    while len(header := stream.read(8)) == 8:
        size = int.from_bytes(header[4:], "big")
        if size > _MAX_FRAME_BYTES:
            raise PodError(f"the forwarder wrote {size} bytes at once")
        yield header[0] == 2, stream.read(size)


def announced(engine: Engine, container_id: str) -> object:
    """The forwarder's one line, parsed; raises `PodError` if it ends or says nothing in time.

    The log is followed and not the container attached to: nothing written before is lost.
    """
    until, complaint = time.monotonic() + PREFLIGHT_S, b""
    where = f"/v{engine.api_version}/containers/{container_id}/logs?follow=1&stdout=1&stderr=1"
    with translated("logs"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PREFLIGHT_S)
        connection.connect(engine.socket_path)
        # HTTP/1.0, so that the answer is not chunked.
        connection.sendall(f"GET {where} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        try:
            with connection.makefile("rb") as stream:
                _skip_head(stream)
                for is_error, content in _frames(stream):
                    if not is_error:
                        return json.loads(content)
                    complaint += content
                    connection.settimeout(max(0.001, until - time.monotonic()))
        except TimeoutError:
            raise PodError(f"no word from the forwarder after {PREFLIGHT_S:.0f} s") from None
        except ValueError:
            raise PodError("what the forwarder wrote is not JSON") from None
    raise PodError(f"the forwarder ended: {complaint.decode('utf-8', 'replace')[-_ERROR_KEPT:].strip()}")
