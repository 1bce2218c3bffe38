"""Agents that turn on their pod (group network): the forwarder, its port, its socket, and the way out."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workers
from workers.errors import EngineCallError
from workers.sandbox.counters import read_counters
from workers.sandbox.reaper import reap

pytestmark = pytest.mark.docker

KINDS = ("netns", "internal")
USERS = ("0:0", "1000:1000", "65532:65532")
"""Root, a plain agent, and one that happens to be of the forwarder's uid."""

HELLO = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1] + "/api/hello", method="HEAD")
print(urllib.request.urlopen(request, timeout=30).status)
"""

LOOK = """
import json, os, sys
found = {}
found["processes"] = sorted(
    open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\\0", b" ").decode()[:40]
    for pid in os.listdir("/proc") if pid.isdigit() and pid != str(os.getpid())
)
found["files"] = [
    os.path.join(folder, name)
    for folder, folders, names in os.walk("/", onerror=lambda error: None)
    for name in (*folders, *names)
    if not folder.startswith(("/proc", "/sys"))
    and (name in ("relay", "relay.sock") or "forwarder" in name)
]
found["mounts"] = [line for line in open("/proc/self/mountinfo") if "relay" in line]
found["sockets"] = [line for line in open("/proc/net/unix") if "/" in line.split()[-1]]
for pid in ("1", "self"):
    for way in ("root", "cwd"):
        try:
            found["files"] += [n for n in os.listdir(f"/proc/{pid}/{way}") if n == "relay"]
        except OSError:
            pass
print(json.dumps(found))
"""

BIND = """
import errno, socket, sys
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for options in ((), ("SO_REUSEADDR",), ("SO_REUSEPORT",), ("SO_REUSEADDR", "SO_REUSEPORT")):
        try:
            with socket.socket(family) as thief:
                for option in options:
                    thief.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
                if family == socket.AF_INET6:
                    thief.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                thief.bind((host, 8080))
                thief.listen()
                print("bound", host, options)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                print(host, options, error)
"""

KILL = """
import os, signal, sys
for signal_number in (signal.SIGTERM, signal.SIGKILL):
    for pid in range(1, 40_000):
        if pid != os.getpid():
            try:
                os.kill(pid, signal_number)
            except (ProcessLookupError, PermissionError):
                pass
try:
    os.kill(-1, signal.SIGKILL)
except (ProcessLookupError, PermissionError):
    pass
"""

PRIVILEGED = """
import ctypes, fcntl, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, call):
    try:
        call()
        print("could", name)
    except OSError:
        pass
def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "")
def control(request, payload):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, request, payload)
address = struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, bytes([10, 9, 8, 7]))
flags = struct.pack("16sh14x", b"lo", 0)
tried("see frames", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300))
tried("send raw packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("change an address", lambda: control(0x8916, address))
tried("take loopback down", lambda: control(0x8914, flags))
tried("enter another namespace", lambda: checked(libc.setns(os.open("/proc/1/ns/net", 0), 0)))
tried("make a namespace", lambda: checked(libc.unshare(0x40000000)))
tried("make a user namespace", lambda: checked(libc.unshare(0x10000000)))
tried("mount", lambda: checked(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)))
for name in ("net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "net/ipv4/tcp_rmem"):
    tried("write " + name, lambda: open("/proc/sys/" + name, "w").write("1"))
"""

CONNECT = """
import json, socket, sys
reached = []
for host, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((host, port), 1).close()
        reached.append([host, port])
    except ConnectionRefusedError:
        reached.append([host, port, "refused"])
    except OSError:
        pass
for host in ("8.8.8.8", "172.17.0.1", sys.argv[2]):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        query.settimeout(1)
        try:
            query.connect((host, 53))
            query.send(b"AZ\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1")
            query.recv(512)
            reached.append("dns " + host)
        except OSError:
            pass
print(json.dumps(reached))
"""

FLOOD = """
import socket, sys
host, port = sys.argv[1].removeprefix("http://").split(":")
held = []
for number in range(400):
    try:
        connection = socket.create_connection((host, int(port)), 3)
        held.append(connection)
        connection.setblocking(False)
        for _ in range(64):
            connection.send(b"x" * 65536)
    except TimeoutError:
        break
    except BlockingIOError:
        pass
print(len(held))
"""


@pytest.fixture(scope="module")
def ears() -> Iterator[tuple[int, list[object]]]:
    """A listener on every address of this host: (port, who came)."""
    came: list[object] = []
    with socket.create_server(("0.0.0.0", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                came.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def own_addresses() -> list[str]:
    """Addresses of this host that a container might reach."""
    found = {"172.17.0.1", "169.254.169.254", "1.1.1.1"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # a host without a way out has no further address
    return sorted(found)


@pytest.mark.parametrize("user", USERS)
def test_the_forwarder_cannot_be_seen(ground: Any, user: str) -> None:
    """Neither its processes nor the socket, its folder, or the program; the port is all there is."""
    pod = ground.pod()
    found = json.loads(ground.python(ground.sandbox(pod.network_mode), LOOK, user=user))
    assert [one for one in found.pop("processes") if "sleep" not in one] == []
    assert found == {"files": [], "mounts": [], "sockets": []}


@pytest.mark.parametrize("user", USERS)
def test_the_port_cannot_be_taken(ground: Any, user: str) -> None:
    """No address and no option: an agent cannot put a relay of its own in front of itself or others."""
    pod = ground.pod()
    sandbox = ground.sandbox(pod.network_mode)
    assert ground.python(sandbox, BIND, user=user) == ""
    assert ground.python(sandbox, HELLO, pod.relay_url, user=user) == "200\n"


@pytest.mark.parametrize("user", USERS)
def test_the_forwarder_cannot_be_ended(ground: Any, user: str) -> None:
    """Every number, with every right that an agent can have; whatever dies, it is not the forwarder."""
    pod = ground.pod()
    ground.python(ground.sandbox(pod.network_mode), KILL, user=user)
    assert pod.is_alive()
    assert ground.python(ground.sandbox(pod.network_mode), HELLO, pod.relay_url, user=user) == "200\n"


@pytest.mark.parametrize("kind", KINDS)
def test_the_namespace_cannot_be_changed(ground: Any, kind: str) -> None:
    """Root in the sandbox without a capability: no frames, no addresses, no other namespaces."""
    pod = ground.pod(kind=kind)
    assert ground.python(ground.sandbox(pod.network_mode), PRIVILEGED) == ""
    assert ground.python(ground.sandbox(pod.network_mode), HELLO, pod.relay_url) == "200\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_is_reached(
    ground: Any, ears: tuple[int, list[object]], neighbour: str, kind: str
) -> None:
    """net-direct-ip, net-dns-exfil, net-gateway: host, bridges, containers, metadata, name servers."""
    port, came = ears
    pod = ground.pod(kind=kind)
    sandbox = ground.sandbox(pod.network_mode)
    gateways = {one["Gateway"] for one in sandbox.inspect()["NetworkSettings"]["Networks"].values()} - {""}
    hosts = [*own_addresses(), *gateways]
    targets = [(host, at) for host in hosts for at in (port, 22, 2375)] + [(neighbour, 9000)]
    gateway = next(iter(gateways), "192.0.2.1")
    assert ground.python(sandbox, CONNECT, json.dumps(targets), gateway) == "[]\n"
    assert came == []


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_resolved_by_nobody(ground: Any, kind: str) -> None:
    """A name is a message: it must not get as far as a name server."""
    pod = ground.pod(kind=kind)
    script = "import socket; print(socket.gethostbyname('ZGF0YQ.example.com'))"
    assert "socket.gaierror" in ground.python(ground.sandbox(pod.network_mode), script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_does_not_end_the_forwarder(ground: Any, kind: str) -> None:
    """Twice as many connections as there may be, none ever read from: its death would buy a re-run."""
    pod = ground.pod(kind=kind)
    sandbox = ground.sandbox(pod.network_mode)
    ground.relay.deaf.set()
    assert int(ground.python(sandbox, FLOOD, pod.relay_url)) >= 200
    counters = read_counters(pod.container.id)
    ground.relay.deaf.clear()
    ground.relay.over.set()
    assert pod.is_alive() and not counters.oom_kills
    assert ground.python(sandbox, HELLO, pod.relay_url) == "200\n"
    assert pod.is_alive()


def test_a_dead_forwarder_is_noticed(ground: Any) -> None:
    """It is somebody else's doing; the sandbox is left with loopback and nothing in it."""
    pod = ground.pod()
    sandbox = ground.sandbox(pod.network_mode)
    pod.container.kill()
    assert not pod.is_alive() and sandbox.is_running()
    assert "refused" in ground.python(sandbox, HELLO, pod.relay_url)
    assert ground.python(sandbox, CONNECT, json.dumps([("172.17.0.1", 22)]), "192.0.2.1") == "[]\n"


def test_a_pod_is_not_joined_after_its_end(ground: Any) -> None:
    """A sandbox without its pod does not start: it never runs beside the wrong namespace."""
    pod = ground.pod()
    pod.container.kill()
    with pytest.raises(EngineCallError):
        ground.sandbox(pod.network_mode)


def test_pods_do_not_meet(ground: Any) -> None:
    """Two attempts at the same time: each has its own loopback, and internal networks do not touch."""
    first, second = ground.pod(), ground.pod(kind="internal")
    third = ground.pod(kind="internal")
    address = third.relay_url.removeprefix("http://").split(":")
    for pod in (first, second):
        sandbox = ground.sandbox(pod.network_mode)
        target = json.dumps([(address[0], int(address[1]))])
        assert ground.python(sandbox, CONNECT, target, "192.0.2.1") == "[]\n"


def test_kill_9_of_everything_leaves_nothing(station: Any, base_image: str, tmp_path: Path) -> None:
    """Worker and relay die with a pod of each kind open: the reaper takes what dead attempts had."""
    home, prefix = f"pytest-pod-killed-{os.getpid()}", f"assize-test-{time.monotonic_ns()}"
    folder = tmp_path / "socket"
    folder.mkdir(mode=0o755)
    script = Path(__file__).with_name("left_behind.py")
    root = Path(workers.__file__).parent.parent
    command = [sys.executable, str(script), str(folder), base_image, home, prefix]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as worker:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        worker.kill()
    assert said == b"open\n"

    def left() -> tuple[int, int]:
        api, label = station.engine.api, {"label": f"assize.home={home}"}
        return len(api.containers(all=True, filters=label)), len(api.networks(filters=label))

    assert left() == (4, 1)
    some = reap(station.engine, home, lambda label: label == "internal/1")
    assert (len(some.containers), some.networks, left()) == (2, [], (2, 1))
    rest = reap(station.engine, home, lambda label: False)
    assert (len(rest.containers), rest.networks) == (2, [f"{prefix}-internal-net"])
    assert left() == (0, 0) and not reap(station.engine, home, lambda label: False)
