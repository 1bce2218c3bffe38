"""Reading a network namespace's own tables: interfaces, routes, name servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.sandbox.forwarder.facts import interfaces_of, ipv4_routes_of, ipv6_routes_of, namespace_facts
from workers.sandbox.forwarder.probes import first_name_server

DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0
  eth0:    1086      13    0    0    0     0          0         0        0       0    0    0    0     0
"""
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
lo\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
"""
REJECT = "0" * 32 + " 00 " + "0" * 32 + " 00 " + "0" * 32 + " ffffffff 00000001 00000000 00200200       lo\n"
LINK = (
    f"fe80{'0' * 28} 40 {'0' * 32} 00 {'0' * 32} 00000100 00000001 00000000 00000001     eth0\n"
    f"{'0' * 31}1 80 {'0' * 32} 00 {'0' * 32} 00000000 00000002 00000000 80200001       lo\n"
)


def test_interfaces() -> None:
    """Two lines of headings, then one interface a line."""
    assert interfaces_of(DEV) == ["eth0", "lo"]
    assert interfaces_of(DEV.rsplit("  eth0", 1)[0]) == ["lo"]
    assert interfaces_of("") == []


def test_ipv4_routes() -> None:
    """Addresses are in the host's byte order; loopback is no route out."""
    assert ipv4_routes_of(ROUTE) == ["eth0 0.0.0.0/0 via 172.17.0.1", "eth0 172.17.0.0/16"]
    assert ipv4_routes_of(ROUTE.splitlines()[0]) == []


def test_ipv6_routes() -> None:
    """A namespace with loopback only rejects everything on `lo`, which is no route out either."""
    assert ipv6_routes_of(REJECT) == []
    assert ipv6_routes_of(REJECT + LINK) == ["eth0 fe80::/64"]


def test_a_namespace(tmp_path: Path) -> None:
    """Both families together; a system without IPv6 has no table of it."""
    (tmp_path / "dev").write_text(DEV)
    (tmp_path / "route").write_text(ROUTE)
    without = namespace_facts(str(tmp_path))
    (tmp_path / "ipv6_route").write_text(LINK)
    assert without["interfaces"] == ["eth0", "lo"] and len(without["routes"]) == 2
    assert namespace_facts(str(tmp_path))["routes"] == [*without["routes"], "eth0 fe80::/64"]


def test_a_namespace_that_cannot_be_read(tmp_path: Path) -> None:
    """Nothing read is not nothing there."""
    with pytest.raises(OSError):
        namespace_facts(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("search x\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n", "10.0.0.2"),
        ("nameserver\tfd00::1\n", "fd00::1"),
        ("# nameserver 10.0.0.2\nnameserver\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_the_first_name_server(text: str, server: str) -> None:
    """The one that the C library would ask first."""
    assert first_name_server(text) == server
