"""What a program needs of the system that starts it: read from its ELF headers, not guessed from names.

Only 64-bit little-endian files are read, which is what every agent here is packed for.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_STRTAB, _VERNEED, _VERNEED_COUNT = 5, 0x6FFFFFFE, 0x6FFFFFFF
_GLIBC: Final = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_MOST_NEEDS: Final = 1024
"""Libraries that one file asks for; what says more is made to be read for ever."""
_MACHINES: Final = {"x86_64": 62, "aarch64": 183}


@dataclass(frozen=True)
class Linked:
    """What an ELF file is started by (None for a static one and for libraries), and its newest glibc symbol.

    `glibc` is (major, minor), None where it asks for no version.
    """

    machine: int
    loader: str | None
    glibc: tuple[int, int] | None

    def is_for(self, machine: str) -> bool:
        """Whether it is made for a machine of this name (`uname -m`)."""
        return self.machine == _MACHINES.get(machine)


def linked(path: Path) -> Linked | None:
    """The needs of one file; None for anything that is no such ELF file, or a damaged one."""
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return None
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _read(data)
            except (struct.error, IndexError, ValueError, OverflowError):
                return None


def _read(data: mmap.mmap) -> Linked:
    (machine,) = struct.unpack_from("<H", data, 18)
    table, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, table + at * size) for at in range(count)]
    loads = [(start, length, offset) for kind, _, offset, start, _, length in headers if kind == _LOAD]
    loader, versions = None, set()
    for kind, _, offset, _, _, length in headers:
        if kind == _INTERP:
            loader = data[offset : offset + length].rstrip(b"\0").decode()
        elif kind == _DYNAMIC:
            versions = set(_versions(data, dict(_dynamic(data, offset, length)), loads))
    return Linked(machine, loader, max(versions, default=None))


def _dynamic(data: mmap.mmap, offset: int, length: int) -> Iterator[tuple[int, int]]:
    for at in range(offset, offset + length, 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == 0:
            return
        yield tag, value


def _versions(
    data: mmap.mmap, entries: dict[int, int], loads: list[tuple[int, int, int]]
) -> Iterator[tuple[int, int]]:
    if _VERNEED not in entries or _STRTAB not in entries:
        return
    strings, need = _offset(entries[_STRTAB], loads), _offset(entries[_VERNEED], loads)
    for _ in range(min(entries.get(_VERNEED_COUNT, 0), _MOST_NEEDS)):
        _, count, _, first, following = struct.unpack_from("<HHIII", data, need)
        at = need + first
        for _ in range(count):
            _, _, _, name, further = struct.unpack_from("<IHHII", data, at)
            end = data.find(b"\0", strings + name)
            if found := _GLIBC.fullmatch(data[strings + name : end]):
                yield int(found[1]), int(found[2])
            if further == 0:  # the last one, whatever the count says
                break
            at += further
        if following == 0:
            break
        need += following


def _offset(address: int, loads: list[tuple[int, int, int]]) -> int:
    """Where in the file a place in memory comes from; `ValueError` if from nowhere."""
    for start, length, offset in loads:
        if start <= address < start + length:
            return address - start + offset
    raise ValueError("an address outside of every segment")
