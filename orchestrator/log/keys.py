"""Which unique keys a log has, small enough for millions: a hash table of 12 to 24 bytes per key."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import compress

_FIRST_SLOTS = 1 << 10


class KeyIndex:
    """Maps the 64-bit hash of a key to the index of its entry; the caller confirms every candidate.

    Open addressing over two arrays. The hash is that of the running process, so nobody can choose keys
    that collide.
    """

    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * _FIRST_SLOTS))
        self._slots = array("I", bytes(array("I").itemsize * _FIRST_SLOTS))
        self._used = 0

    def candidates(self, key: bytes) -> Iterator[int]:
        """Indexes of entries that may have this key; almost always none or the right one."""
        hashes, slots, mask = self._hashes, self._slots, len(self._slots) - 1
        wanted = hash(key)
        at = wanted & mask
        while slot := slots[at]:
            if hashes[at] == wanted:
                yield slot - 1
            at = (at + 1) & mask

    def has_none_of(self, keys: Iterable[bytes]) -> bool:
        """Whether surely none of the keys is in the table."""
        hashes, slots, mask = self._hashes, self._slots, len(self._slots) - 1
        for key in keys:
            wanted = hash(key)
            at = wanted & mask
            while slots[at]:
                if hashes[at] == wanted:
                    return False
                at = (at + 1) & mask
        return True

    def extend(self, keys: Iterable[bytes], first: int) -> None:
        """Add keys whose entries have the indexes `first`, `first` + 1, .."""
        self._insert((hash(key) for key in keys), range(first + 1, 1 << 62))

    def _insert(self, wanted: Iterable[int], numbers: Iterable[int]) -> None:
        hashes, slots, mask = self._hashes, self._slots, len(self._slots) - 1
        room = len(slots) * 2 // 3 - self._used
        for value, number in zip(wanted, numbers, strict=False):
            if not room:
                self._used = len(slots) * 2 // 3
                self._grow()
                hashes, slots, mask = self._hashes, self._slots, len(self._slots) - 1
                room = len(slots) * 2 // 3 - self._used
            at = value & mask
            while slots[at]:
                at = (at + 1) & mask
            hashes[at], slots[at] = value, number
            room -= 1
        self._used = len(slots) * 2 // 3 - room

    def _grow(self) -> None:
        hashes, slots = self._hashes, self._slots
        self._hashes = array("q", bytes(2 * hashes.itemsize * len(hashes)))
        self._slots = array("I", bytes(2 * slots.itemsize * len(slots)))
        self._used = 0
        self._insert(compress(hashes, slots), filter(None, slots))
