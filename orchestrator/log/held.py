"""The entries of a log that nobody appends to any more, by their unique keys."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.log.keys import KeyIndex
from orchestrator.log.tiles import WIDTH, Tiles
from orchestrator.log.writer import keys_of

_CACHED_TILES: Final = 16


class HeldEntries:
    """Finds entries of a published log of `size`; reads all of it once, about 2 us per entry.

    Raises `VerificationError` (`log-missing`, `log-tile`) for files that cannot be read.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._tiles, self._keys = Tiles(folder, size, _CACHED_TILES), KeyIndex()
        for number in range((size + WIDTH - 1) // WIDTH):
            self._keys.extend(keys_of(self._tiles.entries(number)), unseen=False)

    def find(self, key: bytes) -> tuple[int, bytes] | None:
        """Index and bytes of the entry with this key (a last line, line feed included)."""
        for index in self._keys.candidates(key):
            raw = self._tiles.entry(index)
            if raw.endswith(b"\n" + key):
                return index, raw
        return None
