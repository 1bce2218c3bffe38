"""Hostile agents and services in a pod with several containers: the host, other pods, names, frames.

Two pods stand beside each other, each with a small store. Scripts are run where an agent runs, and in the
store itself, as if its image were the attacker's.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from tests.integration.pod.conftest import StubRelay
from tests.integration.services.conftest import services_order as services_order
from workers.attempt.pods import open_pod, sidecars_of
from workers.attempt.runner import AttemptRunner
from workers.sandbox import internal
from workers.sandbox.announcement import PodError
from workers.sandbox.container import Container
from workers.sandbox.execute import Command, run_command
from workers.sandbox.pod import Pod
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.sidecars import Sidecars

pytestmark = pytest.mark.docker

MakeOrder = Callable[..., AttemptOrder]

CONNECT = """
import json, socket, sys
found = {}
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 1.5):
            found[target] = "reached"
    except OSError as error:
        found[target] = type(error).__name__
print(json.dumps(found))
"""

FRAMES = """
import json, os, socket
found = {}
def tried(name, call):
    try:
        call()
        found[name] = "could"
    except OSError as error:
        found[name] = type(error).__name__
tried("frames", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0806))
tried("cooked frames", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x0806))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("arp cache", lambda: open("/proc/sys/net/ipv4/conf/eth0/arp_accept", "w").write("1"))
tried("forwarding", lambda: open("/proc/sys/net/ipv4/ip_forward", "w").write("1"))
def multicast():
    index = socket.if_nametoindex("eth0")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("ff02::1%eth0", 9, 0, index))
tried("ipv6 link-local", multicast)
found["ipv6 addresses"] = [
    line.split()[-1] for line in open("/proc/net/if_inet6") if line.split()[-1] != "lo"
] if os.path.exists("/proc/net/if_inet6") else []
print(json.dumps(found))
"""

NAMES = """
import json, socket, struct, sys
found = {"own": socket.gethostbyname("store")}
for name in sys.argv[1:]:
    try:
        found[name] = socket.gethostbyname(name)
    except OSError as error:
        found[name] = type(error).__name__
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\\0"
    packet = b"AZ\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0" + question + struct.pack(">HH", 16, 1)
    for server in ("127.0.0.11", sys.argv[1] and "8.8.8.8"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.settimeout(2)
            try:
                out.sendto(packet, (server, 53))
                found[name + " at " + server] = out.recv(512)[3] & 15
            except OSError as error:
                found[name + " at " + server] = type(error).__name__
print(json.dumps(found))
"""


class Standing:
    """One pod with its store and a sandbox in it; `python` runs a script in either."""

    def __init__(self, runner: AttemptRunner, order: AttemptOrder, socket_dir: Path | None) -> None:
        self.runner, self.order = runner, order
        found = sidecars_of(runner.station, order)
        assert found is not None and order.pod is not None
        self.sidecars: Sidecars = found
        self.pod: Pod | None = None
        self.sandbox: Container | None = None
        try:
            self.sidecars.start(lifetime_s=120, cancelled=lambda: False)
            self.pod = open_pod(
                runner.station,
                order,
                image=order.pod.image,
                socket_dir=socket_dir,
                ground=self.sidecars.ground,
            )
            self.sandbox = self._sandbox(self.pod.network_mode)
        except BaseException:
            self.close()
            raise

    def _sandbox(self, network: str) -> Container:
        body = create_body(
            self.order.agent_image,
            Limits(128 << 20, 1000, 64, 120),
            runtime="runc",
            grader=False,
            labels=self.order.labels,
            volumes={},
            workdir="/tmp",
            network=network,
        )
        station = self.runner.station
        made = Container.create(station.engine, station.watch, f"assize-{self.order.attempt_id}-agent", body)
        made.start()
        return made

    @property
    def addresses(self) -> list[str]:
        """Gateway that nobody has, the agent's side, the store."""
        return [str(self.sidecars.network.subnet[at]) for at in (1, 2, 3)]

    def python(self, where: str, script: str, *arguments: str) -> dict[str, Any]:
        container = self.sandbox if where == "agent" else self.sidecars.running[0].container
        assert container is not None
        result = run_command(
            self.runner.station.engine,
            container.id,
            Command(["python3", "-c", script, *arguments], "0:0", {}, "/"),
            deadline=time.monotonic() + 90,
            cap_bytes=1 << 20,
            still_running=container.is_running,
        )
        assert result.exit_code == 0, (result.stdout + result.stderr).decode()
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def close(self) -> None:
        if self.sandbox is not None:
            self.sandbox.remove()
        if self.pod is not None:
            self.pod.remove()
        self.sidecars.remove()


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[StubRelay]:
    made = StubRelay(tmp_path / "socket")
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(10)


@pytest.fixture
def two_pods(
    runner: AttemptRunner, relay: StubRelay, services_order: MakeOrder
) -> Iterator[tuple[Standing, Standing]]:
    first = Standing(runner, services_order("true"), relay.folder)
    try:
        second = Standing(runner, services_order("true"), None)
        try:
            yield first, second
        finally:
            second.close()
    finally:
        first.close()


@pytest.fixture
def host_service() -> Iterator[int]:
    """A port of the host that listens on all of its addresses."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield int(server.getsockname()[1])


def _host_addresses() -> set[str]:
    names = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            names.add(probe.getsockname()[0])
        except OSError:
            pass  # a host without a way out
    return {"172.17.0.1", *(str(name) for name in names if not str(name).startswith("127."))}


def test_nothing_but_the_own_pod_is_reached(two_pods: tuple[Standing, Standing], host_service: int) -> None:
    """relay.md section 7, from the agent and from the store: host, gateway, other pods, outside: no answer.

    A refused connection would be an answer: a way. The own store, and the relay from the agent's side only,
    do answer.
    """
    first, second = two_pods
    gateway, main, own_store = first.addresses
    far = [f"{host}:{host_service}" for host in sorted(_host_addresses())]
    far += [f"{gateway}:{port}" for port in (22, 53, 2375, host_service)]
    far += [f"{second.addresses[0]}:{host_service}", f"{second.addresses[1]}:8080"]
    far += [f"{second.addresses[2]}:6379", "169.254.169.254:80", "1.1.1.1:443"]
    for where in ("agent", "store"):
        found = first.python(where, CONNECT, *far, f"{own_store}:6379", "store:6379", "127.0.0.1:8080")
        assert {found.pop(f"{own_store}:6379"), found.pop("store:6379")} == {"reached"}
        # The store's own loopback has no relay on it; the agent's has.
        assert found.pop("127.0.0.1:8080") == ("reached" if where == "agent" else "ConnectionRefusedError")
        assert {target: end for target, end in found.items() if end not in ("TimeoutError", "OSError")} == {}
    # And the relay's port of the agent's side is no port of the network.
    assert first.python("store", CONNECT, f"{main}:8080", "main:8080") == {
        f"{main}:8080": "ConnectionRefusedError",
        "main:8080": "ConnectionRefusedError",
    }


def test_frames_and_other_protocols_are_refused(two_pods: tuple[Standing, Standing]) -> None:
    """No ARP from a program, no raw packet, no IPv6, no routing through a neighbour."""
    first, _ = two_pods
    for where in ("agent", "store"):
        found = first.python(where, FRAMES)
        assert found.pop("ipv6 addresses") == []
        assert {name: end for name, end in found.items() if end == "could"} == {}


class _Listening:
    """A name server on the host's loopback that answers nothing and keeps what it is asked."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.socket.settimeout(0.2)
        self.heard = b""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            try:
                self.heard += self.socket.recv(512)
            except TimeoutError:
                continue

    def close(self) -> None:
        self.over.set()
        self.thread.join(10)
        self.socket.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs port 53 of the host's loopback")
def test_no_name_leaves_the_pod(two_pods: tuple[Standing, Standing]) -> None:
    """CVE-2024-29018: the engine's own name server must ask nobody, not even one on the host's loopback."""
    first, second = two_pods
    word = secrets.token_hex(8)
    names = (f"{word}.example.com", f"assize-{second.order.attempt_id}-service-store", "host.docker.internal")
    listening = _Listening()
    try:
        for where in ("agent", "store"):
            found = first.python(where, NAMES, *names)
            assert found.pop("own") == first.addresses[2]
            # 2 SERVFAIL and 5 REFUSED name nothing; 0 and 3 would be somebody's answer.
            wrong = {name: said for name, said in found.items() if said in (0, 3) or "." in str(said)}
            assert wrong == {}
    finally:
        listening.close()
    assert word.encode() not in listening.heard


def test_a_port_of_the_relay_cannot_be_taken(two_pods: tuple[Standing, Standing]) -> None:
    """Neither from the agent's container, nor by a service that would stand in for it."""
    first, _ = two_pods
    bind = (
        "import json, socket\n"
        "found = []\n"
        "for host in ('127.0.0.1', '0.0.0.0'):\n"
        "    try:\n"
        "        socket.create_server((host, 8080)); found.append(host)\n"
        "    except OSError: pass\n"
        "print(json.dumps({'bound': found}))\n"
    )
    assert first.python("agent", bind) == {"bound": []}
    assert first.python("store", bind)["bound"]  # its own loopback: nobody else looks there


def test_a_pod_is_not_opened_over_a_network_with_a_way_out(
    runner: AttemptRunner, services_order: MakeOrder
) -> None:
    """The proof can fail: with an address of the host on the bridge the service is not accepted."""
    order = services_order("true")
    found: Sidecars | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(internal, "_OPTIONS", {})
        found = sidecars_of(runner.station, order)
    assert found is not None
    try:
        with pytest.raises(PodError, match=r"service store: tcp .* was reached"):
            found.start(lifetime_s=60, cancelled=lambda: False)
    finally:
        found.remove()


def test_an_image_of_a_service_gets_no_rights(runner: AttemptRunner, services_order: MakeOrder) -> None:
    """A service is under the profile of an agent's container, whoever it runs as."""
    standing = Standing(runner, services_order("true"), None)
    try:
        script = (
            "import json\n"
            "lines = dict(line.split(':\\t') for line in open('/proc/self/status') if ':\\t' in line)\n"
            "names = ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')\n"
            "print(json.dumps({name: lines[name].strip() for name in names}))"
        )
        assert standing.python("store", script) == {
            "CapEff": "0" * 16,
            "CapBnd": "0" * 16,
            "NoNewPrivs": "1",
            "Seccomp": "2",
        }
    finally:
        standing.close()
