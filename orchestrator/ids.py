"""ULIDs: sortable ids in 26 upper-case Crockford base32 characters (48 bits ms, 80 bits random)."""

from __future__ import annotations

import secrets
import time
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(now_ms: int | None = None, drawn: int | None = None) -> str:
    """A ULID; `now_ms` is Unix time in milliseconds (default: now), `drawn` its 80 random bits."""
    stamp = int(time.time() * 1000) if now_ms is None else now_ms
    number = (stamp << 80) | (secrets.randbits(80) if drawn is None else drawn)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -5, -5))
