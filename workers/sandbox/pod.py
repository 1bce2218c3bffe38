"""The pod of one attempt: a network namespace with the relay in it and nothing else.

A forwarder container owns the namespace, alone mounts the folder with the relay's Unix socket, and passes
bytes between 127.0.0.1:8080 in there and the socket. It is of another uid and pid namespace than the agent,
which can neither see it, nor end it, nor take its port, nor reach the socket itself. Before `open` returns,
the forwarder has probed from inside that nothing else can be reached, and the worker has judged it.

- `netns` (the usual kind): the namespace has loopback only; one sandbox joins it as `container:<id>`.
- `internal`: a network of the engine without an address on the host; the forwarder listens on its own
  address there. For tasks with several containers, and for sandboxes whose runtime brings a network stack
  of its own and so cannot share a namespace (gVisor). It has no more ways out, but more machinery.

The forwarder's own runtime must be one that reaches a Unix socket of the host, whatever the sandbox's is.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, Literal

from workers.errors import EngineCallError, WorkerError
from workers.sandbox.client import Engine, translated
from workers.sandbox.container import Container
from workers.sandbox.forwarder.main import NOTE_NAMES, RELAY_SOCKET
from workers.sandbox.internal import InternalNetwork, create_internal, remove_network
from workers.sandbox.preflight import judge
from workers.sandbox.prepared import Prepared
from workers.sandbox.profile import forwarder_body
from workers.sandbox.station import Station
from workers.sandbox.tars import TarBuilder

Kind = Literal["netns", "internal"]

PORT: Final = 8080
SOCKET_NAME: Final = RELAY_SOCKET.rpartition("/")[2]
"""What the relay's socket is called in the folder; it and the folder must be open to every uid."""

_PREFLIGHT_S: Final = 15.0
_MAX_FRAME_BYTES: Final = 1 << 16
_ERROR_KEPT: Final = 500
_HOME: Final = "/assize"
_PACKAGE: Final = "workers/sandbox/forwarder"
_FILES: Final = ("__init__.py", "facts.py", "main.py", "names.py", "probes.py", "pump.py")
_START: Final = (
    f"import sys; sys.path.insert(0, {_HOME!r})\n"
    "from workers.sandbox.forwarder.main import main\n"
    "main(sys.argv[1:])"
)
# Isolated, without the site module and without writing byte code.
_PYTHON: Final = ("python3", "-I", "-S", "-B", "-c", _START)


class PodError(WorkerError):
    """The pod is not what it must be: `problem` says why, `preflight` is what the forwarder said."""

    def __init__(self, problem: str, preflight: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"pod: {problem}")
        self.problem = problem
        self.preflight = preflight


class Pod:
    """An open pod. `preflight` is plain data for the evidence; `network_mode` is for `create_body`."""

    def __init__(self, station: Station, container: Container, network: InternalNetwork | None) -> None:
        self._station = station
        self._network = network
        self.container: Final = container
        self.network_mode: Final = network.id if network else f"container:{container.id}"
        self.relay_url = f"http://127.0.0.1:{PORT}"
        self.preflight: Mapping[str, Any] = {}

    @classmethod
    def open(
        cls,
        station: Station,
        *,
        name: str,
        base_image: str,
        socket_dir: Path,
        labels: Mapping[str, str],
        runtime: str,
        lifetime_s: int,
        kind: Kind = "netns",
        note_names: bool = False,
    ) -> Pod:
        """Make the pod and prove it; `base_image` is the Id of an image with Python 3.11 or later.

        `note_names` (a namespace of its own only) has the forwarder note what names the sandbox asks for.
        After `lifetime_s` seconds the forwarder ends by itself. Raises `PodError` when the preflight shows a
        way out or no relay, `SandboxMismatchError` and `EngineCallError` as for any container. Nothing is
        left behind then.
        """
        labels = {**labels, "assize.role": "forwarder"}
        network = create_internal(station.engine, f"{name}-net", labels) if kind == "internal" else None
        targets = _host_targets(network) if network else []
        command = [*_PYTHON, "0.0.0.0" if network else "127.0.0.1", str(PORT), str(lifetime_s)]
        command += [NOTE_NAMES] if note_names else []
        command += [f"{host}:{port}" for host, port in targets]

        def body(image_id: str) -> dict[str, Any]:
            return forwarder_body(
                image_id,
                command,
                runtime=runtime,
                labels=labels,
                socket_dir=str(socket_dir),
                network=network.id if network else "none",
                note_names=note_names,
            )

        try:
            container, _ = station.create(name, lambda: _prepared(station, base_image), body)
        except BaseException:
            if network:
                remove_network(station.engine, network.id)
            raise
        pod = cls(station, container, network)
        try:
            pod._prove(targets)
        except BaseException:
            pod._remove()
            raise
        return pod

    def names_asked(self) -> list[str]:
        """What names were asked for so far, in order, each once; empty unless they are noted."""
        with translated("logs"):
            lines = self._station.engine.api.logs(self.container.id, stdout=True, stderr=False).splitlines()
        return [str(json.loads(line)["asked"]) for line in lines[1:]]

    def is_alive(self) -> bool:
        """Whether the forwarder runs; that it does not is no fault of the agent, which cannot end it."""
        return self.container.is_running()

    def died(self) -> bool:
        """Whether the engine has said that the forwarder ended; costs nothing, so it may be asked often."""
        return self._station.watch.actions(self.container.id)["die"] > 0

    def close(self) -> None:
        """Remove the pod beside the next work; its sandboxes must have ended before."""
        self._station.disposer.submit(self._remove)

    def _remove(self) -> None:
        self.container.remove()
        if self._network:
            remove_network(self._station.engine, self._network.id)

    def _prove(self, targets: list[tuple[str, int]]) -> None:
        self.container.start()
        if self._network:
            found = self.container.inspect()["NetworkSettings"]["Networks"]
            (address,) = (str(one["IPAddress"]) for one in found.values())
            self.relay_url = f"http://{address}:{PORT}"
        result = _announced(self._station.engine, self.container.id)
        subnet = str(self._network.subnet) if self._network else None
        problems = judge(result, subnet=subnet, targets=targets)
        kind: Kind = "internal" if self._network else "netns"
        said = {"kind": kind, **(result if isinstance(result, dict) else {}), "ok": not problems}
        if problems:
            raise PodError("; ".join(problems), said)
        self.preflight = said


def _prepared(station: Station, base_image: str) -> Prepared:
    def content(_: object) -> bytes:
        tar, source = TarBuilder(), Path(__file__).parent / "forwarder"
        for name in _FILES:
            tar.file(f"{_HOME}/{_PACKAGE}/{name}", (source / name).read_bytes(), 0o444)
        return tar.bytes()

    return station.prepared.ensure(base_image, "0", "forwarder", content)


def _host_targets(network: InternalNetwork) -> list[tuple[str, int]]:
    """Addresses by which a container on a bridge reaches its host where it can; any port will tell."""
    found = [network.gateway]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks for the address of the way out
            found.append(str(probe.getsockname()[0]))
        except OSError:
            pass  # a host without a way out has no further address
    return [(host, port) for host in found for port in (22, 2375)]


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


def _announced(engine: Engine, container_id: str) -> object:
    """The forwarder's one line, parsed; raises `PodError` if it ends or says nothing in time.

    The log is followed and not the container attached to: nothing written before is lost.
    """
    until, complaint = time.monotonic() + _PREFLIGHT_S, b""
    where = f"/v{engine.api_version}/containers/{container_id}/logs?follow=1&stdout=1&stderr=1"
    with translated("logs"), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PREFLIGHT_S)
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
            raise PodError(f"no word from the forwarder after {_PREFLIGHT_S:.0f} s") from None
        except ValueError:
            raise PodError("what the forwarder wrote is not JSON") from None
    raise PodError(f"the forwarder ended: {complaint.decode('utf-8', 'replace')[-_ERROR_KEPT:].strip()}")
