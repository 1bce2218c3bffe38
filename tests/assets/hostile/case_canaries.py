"""Things that no agent may change or reach: files and clock of this host, and listeners to be found.

The listeners stand where services usually do: on the engine's gateways and the host's own addresses, on
loopback, and in a container on the engine's default bridge, where a neighbour would be. Whatever comes to one
of them came out of a sandbox, or the host is not quiet enough to say so.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from orchestrator.ids import new_id

if TYPE_CHECKING:
    from workers.sandbox.client import Engine

PORTS: Final = (22, 53, 80, 443, 2375, 2376, 3128, 5432, 6379, 8000, 8080)
"""Shells, names, proxies, the engine, databases, brokers, and what programs serve."""
NAMES_PORT: Final = 53
OTHER_TESTS: Final = IPv4Network("10.215.0.0/16")
"""Pods of tests that run beside the suite; one of them is opened with a way out on purpose. The product
leases the pods of the suite elsewhere (`orchestrator.ledger.subnets`)."""
BASE_IMAGE: Final = "assize/base:1"
_READY: Final = "listening"
_READY_S: Final = 60.0
_INSIDE: Final = """
import select, socket
found = [socket.create_server(("0.0.0.0", port)) for port in {ports}]
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("0.0.0.0", {names}))
print("{ready}", flush=True)
while True:
    for one in select.select([*found, names], [], [])[0]:
        if one is names:
            print("udp from", one.recvfrom(65535)[1], flush=True)
        else:
            connection, address = one.accept()
            print("tcp from", address, "at", one.getsockname()[1], flush=True)
            connection.close()
"""


def _own_addresses(engine: Engine) -> list[str]:
    """Loopback, the gateways of the engine's networks, and the address with which this host goes out."""
    found = {"127.0.0.1"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # a host without a route has no further address
    for network in engine.api.networks():
        for one in (network.get("IPAM") or {}).get("Config") or ():
            found.add(str(one.get("Gateway") or "127.0.0.1").partition("/")[0])
    return sorted(found)


def _sockets(addresses: list[str]) -> Iterator[socket.socket]:
    """A listener on a port of its own everywhere, and on the usual ports beside loopback if free.

    On loopback services of this very host have them; no container gets there but through the host's network,
    in which it would find the others too.
    """
    for address in addresses:
        for port in (0, *(PORTS if address != "127.0.0.1" else ())):
            try:
                yield socket.create_server((address, port))
                if port in (0, NAMES_PORT):
                    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    names.bind((address, port))
                    yield names
            except OSError:
                continue  # somebody serves there, or the gateway has no interface as long as nobody uses it


class HostWatch:
    """Files, engine and clock of this host, as they were when it began to look."""

    def __init__(self, engine: Engine, *own: Path) -> None:
        self._engine = engine
        self._watched = [*own, Path("/etc/passwd"), Path("/etc/hosts"), Path("/etc/shadow")]
        self._first = self._hashes()
        self._engine_id = str(engine.info()["ID"])
        self._skew = time.time() - time.monotonic()

    def _hashes(self) -> list[str]:
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in self._watched]

    def problems(self) -> list[str]:
        """L2 as far as the host shows it."""
        found = []
        if self._hashes() != self._first:
            found.append("a file of the host has changed")
        if str(self._engine.info()["ID"]) != self._engine_id:
            found.append("another engine answers")
        if abs(time.time() - time.monotonic() - self._skew) > 5:
            found.append("the host's clock was moved")
        return found


class HostCanary(HostWatch):
    """A host that is watched, with a file of its own, and what listens on its addresses (L9)."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        sentinel = folder / "sentinel"
        sentinel.write_bytes(os.urandom(4096))
        super().__init__(engine, sentinel)
        self._sockets = list(_sockets(_own_addresses(engine)))
        self.listening = [f"{one.type.name} {one.getsockname()}" for one in self._sockets]
        self.connections: list[str] = []
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            for one in select.select([self._ended, *self._sockets], [], [])[0]:
                if one is self._ended:
                    return
                if one.type == socket.SOCK_DGRAM:
                    address = one.recvfrom(65535)[1]
                else:
                    connection, address = one.accept()
                    connection.close()
                if IPv4Address(address[0]) not in OTHER_TESTS:
                    self.connections.append(f"{address} at {one.getsockname()}")

    def close(self) -> None:
        """End the listeners."""
        self._end.close()
        self._thread.join(5)
        for one in (self._ended, *self._sockets):
            one.close()


class Bystander:
    """A container on the engine's default bridge that listens on the usual ports, as a neighbour would."""

    def __init__(self, engine: Engine) -> None:
        self._api = cast(Any, engine.api)
        text = _INSIDE.format(ports=PORTS, names=NAMES_PORT, ready=_READY)
        body = {
            "Image": BASE_IMAGE,
            "Entrypoint": ["timeout", "3600", "python3", "-c", text],
            "Labels": {"assize.role": "bystander"},
            "HostConfig": {"NetworkMode": "bridge", "Init": True, "Memory": 128 << 20},
        }
        self._id = str(self._api.create_container_from_config(body, f"bystander-{new_id().lower()}")["Id"])
        self.listening: list[str] = []
        self.connections: list[str] = []
        self._api.start(self._id)
        until = time.monotonic() + _READY_S
        while not self.listening and time.monotonic() < until:
            self.look()
            time.sleep(0.05)

    def look(self) -> None:
        """Take what it has said so far; one that does not run any more listens to nobody."""
        lines = self._api.logs(self._id).decode().splitlines()
        running = self._api.inspect_container(self._id)["State"]["Running"]
        self.listening = [f"neighbour {PORTS}"] if running and _READY in lines else []
        self.connections = [f"the neighbour: {line}" for line in lines if line != _READY]

    def close(self) -> None:
        """Remove it."""
        self._api.remove_container(self._id, force=True, v=True)
