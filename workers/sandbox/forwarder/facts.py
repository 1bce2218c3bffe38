"""What a network namespace has, read from its `/proc/.../net`, inside the forwarder and by the worker."""

from __future__ import annotations

import socket
import sys


def interfaces_of(text: str) -> list[str]:
    """Names of the interfaces in a `/proc/net/dev`, sorted."""
    return sorted(line.partition(":")[0].strip() for line in text.splitlines() if ":" in line)


def ipv4_routes_of(text: str) -> list[str]:
    """`interface network/prefix[ via gateway]` of every route in a `/proc/net/route` that is not loopback."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[0] != "lo":
            network, gateway = (_ipv4(fields[at]) for at in (1, 2))
            prefix = int(fields[7], 16).bit_count()
            via = "" if gateway == "0.0.0.0" else f" via {gateway}"
            found.append(f"{fields[0]} {network}/{prefix}{via}")
    return found


def ipv6_routes_of(text: str) -> list[str]:
    """The same of a `/proc/net/ipv6_route`."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[9] != "lo":
            network = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
            found.append(f"{fields[9]} {network}/{int(fields[1], 16)}")
    return found


def _ipv4(field: str) -> str:
    return socket.inet_ntoa(int(field, 16).to_bytes(4, sys.byteorder))


def namespace_facts(folder: str) -> dict[str, list[str]]:
    """`interfaces` and `routes` of the network namespace whose `/proc/.../net` is `folder`.

    Raises `OSError` when it cannot be read; a system without IPv6 has no IPv6 routes.
    """
    with open(f"{folder}/dev") as file:
        interfaces = interfaces_of(file.read())
    with open(f"{folder}/route") as file:
        routes = ipv4_routes_of(file.read())
    try:
        with open(f"{folder}/ipv6_route") as file:
            routes += ipv6_routes_of(file.read())
    except FileNotFoundError:
        pass
    return {"interfaces": interfaces, "routes": routes}
