"""Where an endpoint really is: resolved once, looked at, and connected to at that address and no other."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from workers.adapters.endpoint.errors import AddressRefusedError

Address = tuple[int, Any]
"""Family and socket address."""
Resolve = Callable[[str, int], Sequence[Address]]

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def resolved(host: str, port: int) -> Sequence[Address]:
    """The system's answer for TCP; `OSError` without one."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(int(family), address) for family, _, _, _, address in found]


def is_public(text: str) -> bool:
    """Whether an IP address is one that anybody could reach; one inside of another is looked at as well."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if address.version == 6:
        inside = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            return is_public(str(inside))
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def choose(host: str, port: int, *, private: bool, resolve: Resolve = resolved) -> Address:
    """The first address of `host`, once every one it has may be called.

    Raises `AddressRefusedError` for a name without addresses, and unless `private` for one with any that
    is not public: a name that leads to both is a trick or a mistake.
    """
    try:
        found = list(resolve(host, port))
    except (OSError, UnicodeError) as error:
        raise AddressRefusedError(f"{host} has no address ({type(error).__name__})") from None
    if not found:
        raise AddressRefusedError(f"{host} has no address")
    if not private and not all(is_public(str(address[0])) for _, address in found):
        raise AddressRefusedError(f"{host} leads to an address that is not public")
    return found[0]
