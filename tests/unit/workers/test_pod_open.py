"""The pod's own small decisions: which subnet, and what to make of the forwarder's log."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker.errors
import pytest
import requests

from workers.errors import EngineCallError
from workers.sandbox import announcement, internal
from workers.sandbox.client import Engine
from workers.sandbox.internal import POOL, create_internal, subnets_for
from workers.sandbox.pod import PodError

HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"

Announced = Callable[[bytes], object]


def frame(content: bytes, kind: int = 1) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


@pytest.fixture
def announced(tmp_path: Path) -> Iterator[Announced]:
    """Asks an engine that gives one prepared answer for the forwarder's line; keeps the request."""
    path = str(tmp_path / "engine.sock")
    engine = cast(Engine, SimpleNamespace(socket_path=path, api_version="1.41"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()

        def ask(answer: bytes) -> object:
            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    assert connection.recv(1000).startswith(b"GET /v1.41/containers/abc/logs?follow=1&")
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                return announcement.announced(engine, "abc")
            finally:
                thread.join(10)

        yield ask


def test_the_line(announced: Announced) -> None:
    """The first line of the standard output; what was said on the other stream before is no answer."""
    said = {"version": 1}
    line = json.dumps(said).encode() + b"\n"
    assert announced(HEAD + frame(b"warning\n", 2) + frame(line)) == said


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (HEAD, "the forwarder ended: "),
        (HEAD + frame(b"Traceback: no", 2) + frame(b" port\n", 2), "the forwarder ended: Traceback: no port"),
        (HEAD + frame(b"hello\n"), "not JSON"),
        (HEAD + frame(b"\xff\n"), "not JSON"),
        (HEAD + frame(b'{"version": 1}')[:-3], "not JSON"),
        (HEAD + b"\x01\0\0\0\x7f\0\0\0", "2130706432 bytes at once"),
        (HEAD + b"\x01\0\0", "the forwarder ended: "),
    ],
)
def test_no_line(announced: Announced, answer: bytes, problem: str) -> None:
    """A forwarder that says nothing, or something else, is no pod."""
    with pytest.raises(PodError) as raised:
        announced(answer)
    assert problem in raised.value.problem and raised.value.preflight is None


@pytest.mark.parametrize("answer", [b"HTTP/1.0 404 Not Found\r\n\r\n{}", b"", b"\r\n"])
def test_an_engine_that_refuses(announced: Announced, answer: bytes) -> None:
    """That is the engine's failure and not the forwarder's."""
    with pytest.raises(EngineCallError):
        announced(answer)


def test_silence_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forwarder that hangs does not hold the attempt."""
    monkeypatch.setattr(announcement, "PREFLIGHT_S", 0.05)
    path = str(tmp_path / "engine.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        engine = cast(Engine, SimpleNamespace(socket_path=path, api_version="1.41"))
        with pytest.raises(PodError, match="no word"):
            announcement.announced(engine, "abc")


def test_subnets_are_small_and_in_the_pool() -> None:
    """Every name has an order of its own, always the same, without a repetition."""
    found = subnets_for("a", 9000)
    assert len(set(found)) == len(found) == 8192
    assert all(one.subnet_of(POOL) and one.prefixlen == 29 for one in found)
    assert subnets_for("a", 3) == found[:3] != subnets_for("b", 3)


class FakeNetworks:
    """An engine that refuses so many subnets as overlapping, then answers."""

    def __init__(self, overlaps: int, explanation: str = "Pool overlaps with other one") -> None:
        self.overlaps = overlaps
        self.explanation = explanation
        self.asked: list[dict[str, Any]] = []

    def create_network(self, name: str, **options: Any) -> dict[str, str]:
        self.asked.append({"name": name, **options})
        if len(self.asked) <= self.overlaps:
            response = requests.Response()
            response.status_code = 403
            raise docker.errors.APIError("x", response=response, explanation=self.explanation)
        return {"Id": "abc"}


def made_by(api: FakeNetworks) -> internal.InternalNetwork:
    return create_internal(cast(Engine, SimpleNamespace(api=api)), "n", {"assize.home": "h"})


def test_a_taken_subnet_is_passed_over() -> None:
    """The next one is tried; the network has no address on the host, no IPv6 and our labels."""
    api = FakeNetworks(2)
    network = made_by(api)
    assert network.subnet == subnets_for("n", 3)[2] and network.gateway == str(network.subnet[1])
    last = api.asked[-1]
    assert last["internal"] is True and last["enable_ipv6"] is False
    assert last["options"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}
    assert last["labels"] == {"assize.home": "h"}


@pytest.mark.parametrize(("api", "asked"), [(FakeNetworks(1, "no such driver"), 1), (FakeNetworks(99), 64)])
def test_a_network_that_cannot_be_made(api: FakeNetworks, asked: int) -> None:
    """Another error is not hidden by trying on, and trying on has an end."""
    with pytest.raises(EngineCallError):
        made_by(api)
    assert len(api.asked) == asked
