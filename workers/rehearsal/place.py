"""Where the scripted provider may listen, and where it does."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from workers.rehearsal.errors import PlaceRefusedError

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Address:
    """Where the server answers; over a socket the host in `base_url` is a placeholder."""

    base_url: str
    socket_path: str | None = None


def checked_host(host: str) -> str:
    """`host`, when it is a loopback address; `PlaceRefusedError` otherwise, names included."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise PlaceRefusedError(f"host {host!r} is no loopback address, and nothing else is served")
    return host
