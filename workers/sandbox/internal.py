"""Internal networks without an address on the host: the fallback of `workers.sandbox.pod`.

A plain internal network shows every service of the host that listens on all addresses. With
`inhibit_ipv4` the bridge has no address, and the gateway that containers are given does not exist.
One network serves one attempt: peers on the same one reach each other.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import islice
from typing import Final

from docker.types import IPAMConfig, IPAMPool

from workers.errors import ContainerGoneError, EngineCallError
from workers.sandbox.client import Engine, translated

POOL: Final = IPv4Network("10.213.0.0/16")
"""Cut into /29 (five containers each); the engine's own pools are used up after about thirty networks."""

_PREFIX: Final = 29
_ATTEMPTS: Final = 64
_OPTIONS: Final = {"com.docker.network.bridge.inhibit_ipv4": "true"}


@dataclass(frozen=True)
class InternalNetwork:
    """A network of the engine; `gateway` is the address that nobody has."""

    id: str
    subnet: IPv4Network
    gateway: str


def subnets_for(name: str, count: int = _ATTEMPTS) -> list[IPv4Network]:
    """The subnets to try for a network of this name, in order: neighbours of a place that the name gives."""
    number = 1 << (_PREFIX - POOL.prefixlen)
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % number
    size = 1 << (32 - _PREFIX)
    places = ((first + step) % number for step in range(number))
    return [IPv4Network((int(POOL.network_address) + at * size, _PREFIX)) for at in islice(places, count)]


def create_internal(engine: Engine, name: str, labels: Mapping[str, str]) -> InternalNetwork:
    """Make the network on the first subnet that is free; raises `EngineCallError`."""
    subnets = subnets_for(name)
    for number, subnet in enumerate(subnets, 1):
        try:
            return create_on(engine, name, labels, subnet)
        except EngineCallError as error:
            if "overlap" not in error.detail.lower() or number == len(subnets):
                raise
    raise AssertionError("the loop returns or raises")


def create_on(engine: Engine, name: str, labels: Mapping[str, str], subnet: IPv4Network) -> InternalNetwork:
    """Make the network on this very subnet; raises `EngineCallError`."""
    gateway = str(subnet[1])
    pool = IPAMPool(subnet=str(subnet), gateway=gateway)
    with translated("network"):
        made = engine.api.create_network(
            name,
            driver="bridge",
            internal=True,
            enable_ipv6=False,
            check_duplicate=True,
            options=dict(_OPTIONS),
            labels=dict(labels),
            ipam=IPAMConfig(pool_configs=[pool]),
        )
    return InternalNetwork(str(made["Id"]), subnet, gateway)


def remove_network(engine: Engine, network_id: str) -> None:
    """Remove it; gone already is fine. Raises `EngineCallError` while something running is attached."""
    with contextlib.suppress(ContainerGoneError), translated("network"):
        engine.api.remove_network(network_id)
