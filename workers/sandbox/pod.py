"""The pod of one attempt: a network namespace with the relay in it and nothing else.

A forwarder container owns the namespace, alone mounts the folder with the relay's Unix socket, and passes
bytes between 127.0.0.1:8080 in there and the socket. It is of another uid and pid namespace than the agent,
which can neither see it, nor end it, nor take its port, nor reach the socket itself. Before `open` returns,
the forwarder has probed from inside that nothing else can be reached, and the worker has judged it.

- `netns` (the usual kind): the namespace has loopback only; one sandbox joins it as `container:<id>`.
- `internal`: a network of the engine without an address on the host; the forwarder listens on its own
  address there. For sandboxes whose runtime brings a network stack of its own and so cannot share a
  namespace (gVisor). It has no more ways out, but more machinery.
- `shared`: as `netns`, and the namespace stands on such a network, where the task's own services are
  (`workers.sandbox.sidecars`). The relay listens on the namespace's loopback: services do not reach it.

The forwarder's own runtime must be one that reaches a Unix socket of the host, whatever the sandbox's is.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from workers.sandbox.announcement import PodError as PodError
from workers.sandbox.announcement import announced
from workers.sandbox.client import translated
from workers.sandbox.container import Container
from workers.sandbox.forwarder.main import NOTE_NAMES, RELAY_SOCKET
from workers.sandbox.internal import InternalNetwork, create_internal, remove_network
from workers.sandbox.preflight import judge
from workers.sandbox.prepared import Prepared
from workers.sandbox.profile import Place, forwarder_body
from workers.sandbox.station import Station
from workers.sandbox.tars import TarBuilder

Kind = Literal["netns", "internal", "shared"]

PORT: Final = 8080
SOCKET_NAME: Final = RELAY_SOCKET.rpartition("/")[2]
"""What the relay's socket is called in the folder; it and the folder must be open to every uid."""

_HOME: Final = "/assize"
_PACKAGE: Final = "workers/sandbox/forwarder"
_FILES: Final = ("__init__.py", "facts.py", "main.py", "names.py", "probes.py", "prober.py", "pump.py")


def _program(module: str) -> tuple[str, ...]:
    """Isolated, without the site module and without writing byte code."""
    start = (
        f"import sys; sys.path.insert(0, {_HOME!r})\n"
        f"from workers.sandbox.forwarder.{module} import main\n"
        "main(sys.argv[1:])"
    )
    return ("python3", "-I", "-S", "-B", "-c", start)


PROBER: Final = _program("prober")
_FORWARDER: Final = _program("main")


@dataclass(frozen=True)
class Ground:
    """A network that is there before the pod and outlasts it, with the task's own services on it.

    `place` is where the pod stands on it.
    """

    network: InternalNetwork
    place: Place


class Pod:
    """An open pod. `preflight` is plain data for the evidence; `network_mode` is for `create_body`."""

    def __init__(
        self,
        station: Station,
        container: Container,
        network: InternalNetwork | None = None,
        ground: Ground | None = None,
    ) -> None:
        self._station = station
        self._network = network
        self._ground = ground
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
        socket_dir: Path | None,
        labels: Mapping[str, str],
        runtime: str,
        lifetime_s: int,
        kind: Kind = "netns",
        note_names: bool = False,
        ground: Ground | None = None,
    ) -> Pod:
        """Make the pod and prove it; `base_image` is the Id of an image with Python 3.11 or later.

        `note_names` (a namespace of its own only) has the forwarder note what names the sandbox asks for.
        With a `ground` (kind `shared`) `socket_dir` may be None: then there is no relay. After `lifetime_s`
        seconds the forwarder ends by itself. Raises `PodError` when the preflight shows a way out or no
        relay, `SandboxMismatchError` and `EngineCallError` as for any container. Nothing of it is left
        behind then.
        """
        labels = {**labels, "assize.role": "forwarder"}
        network = create_internal(station.engine, f"{name}-net", labels) if kind == "internal" else None
        stands_on = ground.network if ground else network
        targets = host_targets(stands_on) if stands_on else []
        command = [*PROBER, str(lifetime_s)]
        if socket_dir is not None:
            command = [*_FORWARDER, "0.0.0.0" if network else "127.0.0.1", str(PORT), str(lifetime_s)]
            command += [NOTE_NAMES] if note_names else []
        command += [f"{host}:{port}" for host, port in targets]

        def body(image_id: str) -> dict[str, Any]:
            return forwarder_body(
                image_id,
                command,
                runtime=runtime,
                labels=labels,
                socket_dir=None if socket_dir is None else str(socket_dir),
                network=stands_on.id if stands_on else "none",
                note_names=note_names,
                place=ground.place if ground else None,
            )

        try:
            container, _ = station.create(name, lambda: own_image(station, base_image), body)
        except BaseException:
            if network:
                remove_network(station.engine, network.id)
            raise
        pod = cls(station, container, network, ground)
        try:
            pod._prove(targets, relay=socket_dir is not None)
        except BaseException:
            pod.remove()
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
        self._station.disposer.submit(self.remove)

    def remove(self) -> None:
        """Remove it now; may be repeated after a failure."""
        self.container.remove()
        if self._network:
            remove_network(self._station.engine, self._network.id)

    def _prove(self, targets: list[tuple[str, int]], *, relay: bool) -> None:
        self.container.start()
        if self._network:
            found = self.container.inspect()["NetworkSettings"]["Networks"]
            (address,) = (str(one["IPAddress"]) for one in found.values())
            self.relay_url = f"http://{address}:{PORT}"
        result = announced(self._station.engine, self.container.id)
        stands_on = self._ground.network if self._ground else self._network
        subnet = str(stands_on.subnet) if stands_on else None
        problems = judge(result, subnet=subnet, targets=targets, relay=relay)
        kind: Kind = "shared" if self._ground else "internal" if self._network else "netns"
        said = {"kind": kind, **(result if isinstance(result, dict) else {}), "ok": not problems}
        if problems:
            raise PodError("; ".join(problems), said)
        self.preflight = said


def own_image(station: Station, base_image: str) -> Prepared:
    """The image of our own containers: `base_image` with the forwarder's files over it."""

    def content(_: object) -> bytes:
        tar, source = TarBuilder(), Path(__file__).parent / "forwarder"
        for name in _FILES:
            tar.file(f"{_HOME}/{_PACKAGE}/{name}", (source / name).read_bytes(), 0o444)
        return tar.bytes()

    return station.prepared.ensure(base_image, "0", "forwarder", content)


def host_targets(network: InternalNetwork) -> list[tuple[str, int]]:
    """Addresses by which a container on a bridge reaches its host where it can; any port will tell."""
    found = [network.gateway]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks for the address of the way out
            found.append(str(probe.getsockname()[0]))
        except OSError:
            pass  # a host without a way out has no further address
    return [(host, port) for host in found for port in (22, 2375)]
