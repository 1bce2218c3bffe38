"""A zip with exactly one spelling: stored entries, no dates, no extras, the order of the writer.

An archive is accepted only when writing its entries again gives the same bytes. So there is no second
reading for another unpacker to find: no compression to explode, no entry that only one of the two
directories names, nothing before, between or after.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from orchestrator.verification.errors import VerificationError

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<4sHHHHIIH")
_VERSION: Final = 20
_UNIX_VERSION: Final = (3 << 8) | 20
_DATE_1980: Final = (1 << 5) | 1
_MODE_0644: Final = 0o100644 << 16
MAX_ENTRIES: Final = 65_534
MAX_NAME_BYTES: Final = 128


def _headers(name: str, data: bytes, offset: int) -> tuple[bytes, bytes]:
    """The header before an entry's bytes, and its record in the directory, names included."""
    raw, size = name.encode("ascii"), len(data)
    common = (0, 0, 0, _DATE_1980, zlib.crc32(data), size, size, len(raw), 0)
    local = _LOCAL.pack(b"PK\x03\x04", _VERSION, *common) + raw
    central = _CENTRAL.pack(b"PK\x01\x02", _UNIX_VERSION, _VERSION, *common, 0, 0, 0, _MODE_0644, offset)
    return local, central + raw


def _end(directory: list[bytes], offset: int) -> bytes:
    """The directory and what ends the archive."""
    central, count = b"".join(directory), len(directory)
    return central + _END.pack(b"PK\x05\x06", 0, 0, count, count, len(central), offset, 0)


def write(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """The archive of `entries` in the given order; names are ASCII. Raises `ValueError` beyond zip limits."""
    body, directory, offset = [], list[bytes](), 0
    for name, data in entries:
        if len(directory) == MAX_ENTRIES or offset + len(data) >= 1 << 32:
            raise ValueError("too many or too large entries for a plain zip")
        local, central = _headers(name, data, offset)
        body += [local, data]
        directory.append(central)
        offset += len(local) + len(data)
    end = _end(directory, offset)
    if offset + len(end) > 1 << 32:
        raise ValueError("too many or too large entries for a plain zip")
    return b"".join([*body, end])


def read(raw: bytes, *, entry_limit_bytes: int) -> list[tuple[str, bytes]]:
    """The entries in order; raises `VerificationError` (`bundle-form`, `too-large`)."""
    entries: list[tuple[str, bytes]] = []
    directory: list[bytes] = []
    offset, is_strict = 0, True
    while raw[offset : offset + 4] == b"PK\x03\x04":
        if len(raw) < offset + _LOCAL.size or len(entries) >= MAX_ENTRIES:
            raise VerificationError("bundle-form", "a zip that is cut off or has too many entries")
        size, name_bytes = _LOCAL.unpack_from(raw, offset)[8:10]
        if size > entry_limit_bytes:
            raise VerificationError("too-large", f"an entry of {size} bytes")
        start = offset + _LOCAL.size + name_bytes
        if name_bytes > MAX_NAME_BYTES or start + size > len(raw):
            raise VerificationError("bundle-form", "a zip entry with a wrong length")
        name = raw[offset + _LOCAL.size : start].decode("latin-1")
        if not name.isascii() or not name.isprintable():
            raise VerificationError("bundle-form", "a zip entry with a name that is not plain ASCII")
        data = raw[start : start + size]
        # Compared piece by piece with what `write` would give: nothing is copied a second time.
        local, central = _headers(name, data, offset)
        is_strict = is_strict and raw[offset:start] == local
        directory.append(central)
        entries.append((name, data))
        offset = start + size
    if not is_strict or raw[offset:] != _end(directory, offset):
        raise VerificationError("bundle-form", "not a zip in its one strict form (stored, no extras)")
    return entries
