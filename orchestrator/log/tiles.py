"""The tree as files (C2SP tlog-tiles): rows of 256 hashes and bundles of 256 entries.

Those at the right edge are partial. A tile of level L holds the roots of full tiles of level L - 1; the
rows between are hashed again when asked. Nothing read here is trusted: whoever reads compares with a
signed root.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.log import tree
from orchestrator.log.tree import HASH_BYTES
from orchestrator.verification.errors import VerificationError

HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
TILE_BYTES: Final = WIDTH * HASH_BYTES
MAX_ENTRY_BYTES: Final = (1 << 16) - 1
ENTRIES: Final = "entries"


def tile_path(level: int | str, number: int, width: int = WIDTH) -> str:
    """The path of a tile or bundle below the log's folder; `level` is a number or `entries`."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.append(f"x{number % 1000:03}")
    return f"tile/{level}/{'/'.join(reversed(groups))}{'' if width == WIDTH else f'.p/{width}'}"


def widths(size: int) -> list[int]:
    """How many hashes the rows of levels 0, 1, 2 .. have in a tree of `size`; empty for an empty tree."""
    found = []
    while size:
        found.append(size)
        size >>= HEIGHT
    return found


class Edge:
    """The right edge of a growing tree: of every level the hashes that do not fill a tile yet.

    At most 255 hashes per level, so a tree of any size is a few KiB.
    """

    def __init__(self, size: int = 0, rows: list[bytes] | None = None) -> None:
        self.size = size
        self.rows = rows or []

    def extend(self, leaves: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Append concatenated leaf hashes; yields every tile that became full as (level, number, bytes).

        The edge is only right when the iterator is exhausted.
        """
        size = self.size
        self.size += len(leaves) // HASH_BYTES
        level = 0
        while leaves:
            if level == len(self.rows):
                self.rows.append(b"")
            row, first = self.rows[level] + leaves, (size >> HEIGHT * level) // WIDTH
            full = len(row) // TILE_BYTES
            for at in range(full):
                yield level, first + at, row[at * TILE_BYTES : (at + 1) * TILE_BYTES]
            self.rows[level] = row[full * TILE_BYTES :]
            leaves = row[: full * TILE_BYTES]
            for _ in range(HEIGHT):
                leaves = tree.parents(leaves)
            level += 1

    def partial(self) -> Iterator[tuple[int, int, bytes]]:
        """The partial tiles as (level, number, bytes)."""
        for level, row in enumerate(self.rows):
            if row:
                yield level, (self.size >> HEIGHT * level) // WIDTH, row

    def root(self) -> bytes:
        """The root of the tree."""
        below: list[bytes] = []
        for row in self.rows:
            hashes = [row[at : at + HASH_BYTES] for at in range(0, len(row), HASH_BYTES)] + below
            below = [tree.root(hashes)] if hashes else []
        return below[0] if below else tree.EMPTY_ROOT

    def copy(self) -> Edge:
        """An edge that grows on its own."""
        return Edge(self.size, list(self.rows))


def read_file(path: Path, limit_bytes: int) -> bytes:
    """The bytes of one file of a log; raises `VerificationError` (`log-missing`, `log-tile`)."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit_bytes + 1)
    except FileNotFoundError:
        raise VerificationError("log-missing", f"{path.name} is not in the log") from None
    except OSError as error:
        raise VerificationError("log-missing", f"{path.name} cannot be read: {error.strerror}") from None
    if len(raw) > limit_bytes:
        raise VerificationError("log-tile", f"{path.name} is larger than {limit_bytes} bytes")
    return raw


def split_bundle(raw: bytes, count: int) -> list[bytes]:
    """The first `count` entries of a bundle; raises `VerificationError` (`log-tile`) when it is torn."""
    entries, at = [], 0
    for _ in range(count):
        start = at + 2
        at = start + int.from_bytes(raw[at:start], "big")
        if at > len(raw) or start > len(raw):
            raise VerificationError("log-tile", "an entry bundle ends in the middle of an entry")
        entries.append(raw[start:at])
    if at != len(raw) and count == WIDTH:
        raise VerificationError("log-tile", "an entry bundle goes on after its last entry")
    return entries


def join_bundle(entries: list[bytes]) -> bytes:
    """Entries, each behind its length in two bytes."""
    prefix = {length: length.to_bytes(2, "big") for length in set(map(len, entries))}
    return b"".join([prefix[len(raw)] + raw for raw in entries])


class Tiles:
    """Reads the tree of `size` from the folder of a log; keeps at most `cache_tiles` tiles of 16 KiB."""

    def __init__(self, folder: Path, size: int, cache_tiles: int = 256) -> None:
        self.folder = folder
        self.size = size
        self._limit = cache_tiles
        self._cache: OrderedDict[tuple[int, int], list[bytes]] = OrderedDict()

    def _width(self, level: int, number: int) -> int:
        width = min(WIDTH, (self.size >> HEIGHT * level) - number * WIDTH)
        if width <= 0:
            raise ValueError(f"no tile {number} at level {level} in a tree of {self.size}")
        return width

    def _read(self, level: int | str, number: int, width: int, limit_bytes: int) -> bytes:
        try:
            return read_file(self.folder / tile_path(level, number, width), limit_bytes)
        except VerificationError:
            # A log may drop a partial tile once the full one is there.
            full = self.folder / tile_path(level, number)
            if width == WIDTH or not full.exists():
                raise
            return read_file(full, limit_bytes)

    def tile(self, level: int, number: int) -> bytes:
        """The hashes of one tile, cut to the size of the tree."""
        width = self._width(level, number)
        raw = self._read(level, number, width, TILE_BYTES)
        if len(raw) not in (width * HASH_BYTES, TILE_BYTES):
            raise VerificationError("log-tile", f"{tile_path(level, number, width)} has {len(raw)} bytes")
        return raw[: width * HASH_BYTES]

    def entries(self, number: int) -> list[bytes]:
        """The entries of one bundle, cut to the size of the tree."""
        width = self._width(0, number)
        raw = self._read(ENTRIES, number, width, WIDTH * (MAX_ENTRY_BYTES + 2))
        return split_bundle(raw, width)

    def entry(self, index: int) -> bytes:
        """The bytes of entry `index`."""
        return self.entries(index // WIDTH)[index % WIDTH]

    def node(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree, as `orchestrator.log.tree.Node`."""
        tile_level, row = divmod(level, HEIGHT)
        number, at = divmod(index, WIDTH >> row)
        rows = self._rows(tile_level, number)
        while len(rows) <= row:
            low = rows[-1]
            rows.append(tree.parents(low[: len(low) // 64 * 64]))
        found = rows[row][at * HASH_BYTES : (at + 1) * HASH_BYTES]
        if len(found) != HASH_BYTES:
            raise ValueError(f"no subtree {index} at level {level} in a tree of {self.size}")
        return found

    def _rows(self, level: int, number: int) -> list[bytes]:
        """The rows of one tile that were needed so far, lowest first."""
        key = (level, number)
        rows = self._cache.get(key)
        if rows is None:
            rows = self._cache[key] = [self.tile(level, number)]
            if len(self._cache) > self._limit:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return rows

    def edge(self) -> Edge:
        """The right edge, to grow on from here."""
        rows = []
        for level, width in enumerate(widths(self.size)):
            rows.append(self.tile(level, width // WIDTH) if width % WIDTH else b"")
        return Edge(self.size, rows)

    def root(self) -> bytes:
        """The root, hashed from the tiles of the right edge."""
        return self.edge().root()

    def inclusion_proof(self, index: int) -> list[bytes]:
        """The audit path of entry `index`."""
        return tree.inclusion_proof(self.node, index, self.size)

    def consistency_proof(self, old_size: int) -> list[bytes]:
        """The proof that this tree begins with that of `old_size`."""
        return tree.consistency_proof(self.node, old_size, self.size)
