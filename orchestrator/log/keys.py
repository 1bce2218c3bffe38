"""Which unique keys a log has, small enough for millions: a hash table of 12 to 48 bytes per key."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from orchestrator.log.errors import LogError

_NUMBER_BITS: Final = 24
MAX_ENTRIES: Final = (1 << _NUMBER_BITS) - 1
_HASH_BITS: Final = ~MAX_ENTRIES
_GROWTH: Final = 4


class KeyIndex:
    """Maps 40 bits of the hash of a key to the index of its entry; the caller confirms every candidate.

    Open addressing, one 64-bit slot per key: hash above, index + 1 below, 0 is free. The hash is that of
    the running process, so nobody can choose keys that collide. Entries come in the order of their
    indexes; `size` is the next one. A log ends at `MAX_ENTRIES` (16.7 million), long after its year.
    """

    def __init__(self) -> None:
        self.size = 0
        self._slots = array("q", bytes(8 << 10))

    def candidates(self, key: bytes) -> Iterator[int]:
        """Indexes of entries that may have this key; almost always none or the right one."""
        slots, mask = self._slots, len(self._slots) - 1
        tag = hash(key) >> _NUMBER_BITS
        at = tag & mask
        while slot := slots[at]:
            if slot >> _NUMBER_BITS == tag:
                yield (slot & MAX_ENTRIES) - 1
            at = at + 1 & mask

    def extend(self, keys: list[bytes], *, unseen: bool) -> bool:
        """Add the keys of the next entries; raises `LogError` when the log would be too large.

        With `unseen` all of them must be new: at the first that may be known or twice among them nothing
        is added and the answer is False.
        """
        self._make_room(len(keys))
        slots, mask, number = self._slots, len(self._slots) - 1, self.size
        for value in map(hash, keys):
            tag = value >> _NUMBER_BITS
            at = tag & mask
            while slot := slots[at]:
                if unseen and slot >> _NUMBER_BITS == tag:
                    self._forget(keys[: number - self.size])
                    return False
                at = at + 1 & mask
            number += 1
            slots[at] = value & _HASH_BITS | number
        self.size = number
        return True

    def _forget(self, keys: list[bytes]) -> None:
        """Free the slots of keys that were just added, the last one first, as if they had never been."""
        slots, mask = self._slots, len(self._slots) - 1
        for offset in range(len(keys) - 1, -1, -1):
            value = hash(keys[offset])
            wanted = value & _HASH_BITS | self.size + offset + 1
            at = value >> _NUMBER_BITS & mask
            while slots[at] != wanted:
                at = at + 1 & mask
            slots[at] = 0

    def _make_room(self, more: int) -> None:
        """At most two thirds of the slots are used."""
        if self.size + more > MAX_ENTRIES:
            raise LogError(f"a log has at most {MAX_ENTRIES} entries", hint="begin a new shard")
        while 3 * (self.size + more) > 2 * len(self._slots):
            old = self._slots
            self._slots = slots = array("q", bytes(8 * _GROWTH * len(old)))
            mask = len(slots) - 1
            for slot in filter(None, old):
                at = slot >> _NUMBER_BITS & mask
                while slots[at]:
                    at = at + 1 & mask
                slots[at] = slot
