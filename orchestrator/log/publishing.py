"""Copies a log into a static folder that any web server may serve (C2SP tlog-tiles).

Tiles and entries first, the checkpoint last and by rename: whoever reads in between sees the log as it was
before. A copy never goes back, and never shows another history than it did.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.log import cleaning, memory, note, tiles, tree
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.files import Disk
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import ENTRIES, WIDTH, Tiles, tile_path
from orchestrator.log.witnessed import WITNESSED_FILE
from orchestrator.verification.errors import VerificationError

_NEW: Final = ".publishing"
_BODY_LIMIT_BYTES: Final = 16 << 20
_READABLE: Final = 0o644
_ENTERABLE: Final = 0o755

Bodies = Callable[[bytes], str]
"""The path of what an entry is about, below the log's folder."""


@dataclass(frozen=True)
class Published:
    """What a copy shows now, and how many files were written."""

    checkpoint: Checkpoint
    files: int


def publish(
    source: Path, target: Path, verifier: LogVerifier, bodies: Bodies, *, again: bool = False
) -> Published:
    """Bring the copy in `target` up to the log in `source`, with the bodies that are there.

    Only what is new since the copy's own checkpoint is looked at, with `again` everything. Raises
    `VerificationError` when the source does not hold, or when the copy shows a tree that the source
    does not go on from (`rollback`, `split-view`); the copy is then as it was.
    """
    raw = tiles.read_file(source / CHECKPOINT_FILE, note.LIMIT_BYTES)
    head, _ = verifier.open(raw)
    store = Tiles(source, head.size)
    known = _shown(target, verifier)
    if known is not None:
        proof = store.consistency_proof(known.size) if 0 < known.size < head.size else None
        memory.compare(known, head, proof)
    copy, start = _Copy(target), 0 if known is None or again else known.size
    for path, data in _tree_files(store, start):
        copy.put(path, data)
    if Tiles(target, head.size).root() != head.root:
        raise VerificationError("log-root", f"the copied tiles of {head.origin} do not give the signed root")
    for number in range(start // WIDTH, (head.size + WIDTH - 1) // WIDTH):
        _copy_entries(store, number, copy, source, bodies)
    copy.put(CHECKPOINT_FILE, raw, is_final=True)
    witnessed = source / WITNESSED_FILE
    if witnessed.exists():
        copy.put(WITNESSED_FILE, tiles.read_file(witnessed, note.LIMIT_BYTES), is_final=True)
    disk = Disk()
    cleaning.drop_left_over(target, disk)
    cleaning.clean_tiles(target, head.size, disk)
    return Published(head, copy.written)


def _shown(target: Path, verifier: LogVerifier) -> Checkpoint | None:
    path = target / CHECKPOINT_FILE
    return verifier.open(tiles.read_file(path, note.LIMIT_BYTES))[0] if path.exists() else None


def _tree_files(store: Tiles, start: int) -> Iterator[tuple[str, bytes]]:
    """The tiles that a tree of `start` leaves does not have in full."""
    for level, row in enumerate(tiles.widths(store.size)):
        for number in range((start >> tiles.HEIGHT * level) // WIDTH, (row + WIDTH - 1) // WIDTH):
            data = store.tile(level, number)
            yield tile_path(level, number, len(data) // tree.HASH_BYTES), data


def _copy_entries(store: Tiles, number: int, copy: _Copy, source: Path, bodies: Bodies) -> None:
    entries = store.entries(number)
    if tree.leaf_hashes(entries) != store.tile(0, number):
        raise VerificationError("log-tile", f"entries {number * WIDTH} and on are not those of the tree")
    for entry in entries:
        relative = bodies(entry)
        if (source / relative).exists() and not (copy.folder / relative).exists():
            copy.put(relative, tiles.read_file(source / relative, _BODY_LIMIT_BYTES))
    copy.put(tile_path(ENTRIES, number, len(entries)), tiles.join_bundle(entries))


class _Copy:
    """Writes files of a copy whole or not at all, readable by everyone; what is the same is left alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, 0
        self._touched: set[str] = set()

    def put(self, relative: str, data: bytes, *, is_final: bool = False) -> None:
        """`is_final` waits until the names of everything before it are durable."""
        path, new = self.folder / relative, self.folder / _NEW
        if path.exists() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        self._make(path.parent)
        if is_final:
            Disk().sync_folders(sorted(self._touched))
        try:
            with new.open("wb") as file:
                os.fchmod(file.fileno(), _READABLE)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
        self._touched |= {str(one) for one in (path.parent, path.parent.parent)}
        self.written += 1

    @staticmethod
    def _make(folder: Path) -> None:
        """Whatever the umask is, a web server must be able to enter."""
        for path in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            path.mkdir()
            path.chmod(_ENTERABLE)
