"""A stub relay on a Unix socket, pods on the real engine, and sandboxes that join them."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from workers.sandbox.container import Container
from workers.sandbox.execute import Command, run_command
from workers.sandbox.pod import SOCKET_NAME, Pod
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.reaper import ATTEMPT_LABEL, HOME_LABEL
from workers.sandbox.station import Station

HOME = f"pytest-pod-{os.getpid()}"
LABELS = {HOME_LABEL: HOME, ATTEMPT_LABEL: "pod/1"}
LIMITS = Limits(128 << 20, 1000, 64, 120)


class StubRelay(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers every request with `status`; a POST is given back to its sender. `deaf`: reads no request."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        self.folder = folder
        self.status = 200
        self.deaf = threading.Event()
        self.over = threading.Event()
        super().__init__(str(folder / SOCKET_NAME), _Handler)
        (folder / SOCKET_NAME).chmod(0o666)


class _Handler(BaseHTTPRequestHandler):
    server: StubRelay

    def handle(self) -> None:
        if self.server.deaf.is_set():
            self.server.over.wait(60)
        else:
            super().handle()

    def _answer(self, body: bytes) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[StubRelay]:
    made = StubRelay(tmp_path / "socket")
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join(10)


def left_of(station: Station) -> list[str]:
    """Ids of every container and network of these tests."""
    label = {"label": f"{HOME_LABEL}={HOME}"}
    api = station.engine.api
    found = [*api.containers(all=True, filters=label), *api.networks(filters=label)]
    return [str(one["Id"]) for one in found]


@pytest.fixture(scope="session")
def station() -> Iterator[Station]:
    made = Station(None, ATTEMPT_LABEL)
    made.engine.owner_labels = {HOME_LABEL: HOME, ATTEMPT_LABEL: "owner/pod"}
    yield made
    made.disposer.drain()
    left = left_of(made)
    assert made.close() == [] and left == [], "a test left something behind"


class Ground:
    """Opens pods and sandboxes with names of their own, and ends what it opened."""

    def __init__(self, station: Station, base_image: str, relay: StubRelay) -> None:
        self.station = station
        self.base_image = base_image
        self.relay = relay
        self.pods: list[Pod] = []
        self.sandboxes: list[Container] = []

    def left(self) -> list[str]:
        """What is there of these tests, once removals are over."""
        assert self.station.disposer.drain() == []
        return left_of(self.station)

    def pod(self, **changes: Any) -> Pod:
        """A proven pod in front of the stub relay."""
        values: dict[str, Any] = {
            "name": f"assize-test-pod-{time.monotonic_ns()}",
            "base_image": self.base_image,
            "socket_dir": self.relay.folder,
            "labels": LABELS,
            "runtime": "runc",
            "lifetime_s": 120,
        }
        made = Pod.open(self.station, **{**values, **changes})
        self.pods.append(made)
        return made

    def sandbox(self, network: str) -> Container:
        """A running sandbox of the usual profile."""
        body = create_body(
            self.base_image,
            LIMITS,
            runtime="runc",
            grader=False,
            labels=LABELS,
            volumes={},
            workdir="/tmp",
            network=network,
        )
        name = f"assize-test-sandbox-{time.monotonic_ns()}"
        made = Container.create(self.station.engine, self.station.watch, name, body)
        self.sandboxes.append(made)
        made.start()
        return made

    def python(self, sandbox: Container, script: str, *arguments: str, user: str = "0:0") -> str:
        """What a script prints in the sandbox; both streams."""
        result = run_command(
            self.station.engine,
            sandbox.id,
            Command(["python3", "-c", script, *arguments], user, {}, "/tmp"),
            deadline=time.monotonic() + 60,
            cap_bytes=1 << 20,
            still_running=sandbox.is_running,
        )
        return (result.stdout + result.stderr).decode()

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.kill()
            sandbox.remove()
        for pod in self.pods:
            pod.close()
        assert self.station.disposer.drain() == []


@pytest.fixture
def ground(station: Station, base_image: str, relay: StubRelay) -> Iterator[Ground]:
    made = Ground(station, base_image, relay)
    yield made
    made.close()


@pytest.fixture
def neighbour(station: Station, base_image: str) -> Iterator[str]:
    """Address of a container on the default bridge that listens on port 9000."""
    script = (
        "import socket; server = socket.create_server(('0.0.0.0', 9000)); print('listening', flush=True)\n"
        "while True: server.accept()"
    )
    body = {"Image": base_image, "Entrypoint": ["python3", "-c"], "Cmd": [script], "Labels": LABELS}
    api = station.engine.api
    made = api.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
    api.start(made)
    where = f"/containers/{made}/logs"
    with closing(station.engine.stream("logs", where, follow="1", stdout="1")) as lines:
        next(lines)
    address = str(api.inspect_container(made)["NetworkSettings"]["IPAddress"])
    socket.create_connection((address, 9000), 10).close()  # the host itself reaches it
    yield address
    api.remove_container(made, force=True)


@pytest.fixture
def image_without_python(station: Station, base_image: str) -> Iterator[Callable[[], str]]:
    """Makes an image in which the forwarder cannot start."""
    made: list[str] = []

    def make() -> str:
        body = {"Image": base_image, "Entrypoint": ["rm"], "Cmd": ["/usr/bin/python3"], "Labels": LABELS}
        api = station.engine.api
        helper = api.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        api.start(helper)
        api.wait(helper, timeout=60)
        made.append(station.engine.commit(helper, "assize-test-no-python", None, LABELS))
        api.remove_container(helper, force=True)
        return made[-1]

    yield make
    for image in made:
        for one in station.engine.api.images(all=True):
            if one["ParentId"] == image:
                station.engine.remove_image(one["Id"])
        station.engine.remove_image(image)
