"""The one process that appends: batch, tiles, sync, intent, signature, checkpoint by rename.

Wherever it is killed, opening again gives the log of the last signature. Files beyond the last intent
belong to nobody and are removed; an intent whose tiles are durable is signed and published, never
replaced, so that no size is ever signed with two roots. An entry that is in the log keeps its index.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from orchestrator.log import checkpoint, cleaning, note, tiles, tree
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint, NoteKey
from orchestrator.log.errors import (
    LogBusyError,
    LogClosedError,
    LogConflictError,
    LogError,
    LogStateError,
)
from orchestrator.log.files import Disk
from orchestrator.log.keys import KeyIndex
from orchestrator.log.note import Signature
from orchestrator.log.tiles import ENTRIES, WIDTH, Edge, Tiles, tile_path
from orchestrator.verification.errors import VerificationError

SIGNED_FILE: Final = "signed"
WRITING: Final = "writing"
"""A folder in that of the record, there while files of a batch are written: who finds it cleans up.

It is not synced: what it tells of is a writer that was killed, and after a loss of power every writer opens
the log anew, which cleans up in any case.
"""
CLOSED_FILE: Final = "closed"
"""In the folder of the record: this log takes nothing more, and which one goes on from it."""


@dataclass(frozen=True)
class Appended:
    """Where the entries are (one index each, old ones keep theirs), and the signed checkpoint over them."""

    indexes: tuple[int, ...]
    checkpoint: bytes


class LogWriter:
    """Appends to the log in `folder`, which a web server may publish as it is.

    `state` is a folder beside the key, not beside the log: it holds the last tree head that was signed, so
    that a log restored from an old copy is not signed on. A log has one writer; a second one is refused.
    """

    def __init__(
        self,
        folder: Path,
        state: Path,
        origin: str,
        key: NoteKey,
        *,
        disk: Disk | None = None,
        is_new: bool | None = None,
    ) -> None:
        """Open or create the log and finish what an interrupted writer began.

        With `is_new` False a log of which nothing is left is refused instead of begun: the caller knows
        that it was there. Raises `LogBusyError`, `LogStateError`.
        """
        if is_new is False and not (state / SIGNED_FILE).exists() and not (folder / CHECKPOINT_FILE).exists():
            raise LogStateError(
                f"the log {origin} is gone: nothing is in {folder}, nor in its record {state}",
                hint="restore both from a copy; a new log of this name would show others another history",
            )
        self._folder, self._signed, self._writing = folder, state / SIGNED_FILE, state / WRITING
        self._key, self._log = key, checkpoint.log_key(origin, key.public)
        self._disk = disk or Disk()
        self._turn = threading.Lock()
        self._broken = False
        self._make(folder)
        self._make(state)
        self._lock = lock(folder)
        try:
            self._note = self._recover()
            self._edge = self._read_edge()
            self._keys, self._tail = KeyIndex(), list[bytes]()
            self._read_keys(0)
        except VerificationError as error:
            self.close()
            raise LogStateError(f"the log {origin} is damaged: {error.message}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another writer in; appending is over."""
        self._broken = True
        self._disk.abandon()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def release(self) -> None:
        """Let another writer in for now; `resume` goes on from what it leaves."""
        with self._turn:
            self._unlock()

    def resume(self) -> None:
        """Take the log again after `release`; only what others appended meanwhile is read.

        Raises `LogBusyError`, `LogStateError` (also when the log does not go on from what is known here:
        then this writer is closed), `LogError` for a writer that is closed or broken.
        """
        with self._turn:
            self._check_usable(locked=False)
            self._lock = lock(self._folder)
            try:
                self._follow()
            except VerificationError as error:
                self.close()
                raise LogStateError(f"the log {self._log.origin} is damaged: {error.message}") from error
            except BaseException:
                self.close()
                raise

    def _follow(self) -> None:
        known, published = self._head, self._folder / CHECKPOINT_FILE
        if not self._signed.exists() or not published.exists():
            raise LogStateError(f"the log {known.origin} or the record of what was signed for it is gone")
        same = tiles.read_file(self._signed, 1024) == known.body()
        if same and tiles.read_file(published, note.LIMIT_BYTES) == self._note.encode():
            self._clean(known.size, everything=False)
            return
        self._note = self._recover()
        head = self._head
        if known.size:
            path = (
                Tiles(self._folder, head.size).consistency_proof(known.size) if head.size > known.size else []
            )
            tree.verify_consistency(known.size, known.root, head.size, head.root, path)
        self._edge = self._read_edge()
        self._read_keys(known.size)

    @property
    def is_usable(self) -> bool:
        """Whether it is neither closed nor left behind by an append that failed."""
        # Keys without entries are what an interrupt leaves behind.
        return not self._broken and self._keys.size == self._head.size

    @property
    def head(self) -> Checkpoint:
        """The tree head that is published."""
        return self._head

    @property
    def checkpoint(self) -> bytes:
        """The signed note that is published."""
        return self._note.encode()

    def has(self, key: bytes) -> bool:
        """Whether the log has an entry with this unique key (its last line, line feed included)."""
        return self._find(key) is not None

    def place(self, raw: bytes) -> int:
        """The index that an entry has, or would get when appended now; raises `LogConflictError`."""
        return self._place([raw], keys_of([raw]))[0][0]

    def append(self, entries: Sequence[bytes]) -> Appended:
        """Append a batch and publish the checkpoint that covers it; returns when all of it is durable.

        An entry that is in the log or earlier in the batch is not appended again. Raises
        `LogConflictError` for another entry under the same key (nothing is appended), `LogError` after
        a failure of the disk: then open the log again.
        """
        with self._turn:
            self._check_usable()
            keys = keys_of(entries)
            try:
                return self._append(entries, keys)
            except OSError as error:
                raise LogError(f"the log cannot be written: {error}", hint="open the log again") from error
            except VerificationError as error:
                raise LogStateError(f"the log is damaged: {error.message}") from error

    def end(self, follower: str) -> Checkpoint:
        """Take nothing more, for good and in every process; `follower` is the log that goes on from here.

        Returns the last tree head. Again: nothing changes.
        """
        with self._turn:
            self._check_usable()
            end_log(self._signed.parent, follower, self._disk)
            return self._head

    def _append(self, entries: Sequence[bytes], keys: list[bytes]) -> Appended:
        size = self._head.size
        if self._signed.with_name(CLOSED_FILE).exists():
            indexes, fresh = self._place(entries, keys)
            if fresh:
                raise LogClosedError(f"the log {self._head.origin} is closed")
            return Appended(indexes, self._note.encode())
        if self._keys.extend(keys, unseen=True):
            indexes, fresh = tuple(range(size, size + len(keys))), list(entries)
        else:
            indexes, fresh = self._place(entries, keys)
            self._keys.extend(keys_of(fresh), unseen=False)
        if fresh:
            self._broken = True  # until everything is on disk
            self._extend(fresh)
            self._broken = False
        return Appended(indexes, self._note.encode())

    def attach(self, cosignatures: Sequence[Signature]) -> None:
        """Add witness lines to the published checkpoint; lines that it has are kept once."""
        with self._turn:
            self._check_usable()
            more = [line for line in dict.fromkeys(cosignatures) if line not in self._note.signatures]
            if len(self._note.signatures) + len(more) > note.MAX_SIGNATURES:
                raise LogError(f"a checkpoint takes at most {note.MAX_SIGNATURES} signatures")
            if more:
                self._publish(self._note.with_signatures(more).encode())

    def _check_usable(self, *, locked: bool = True) -> None:
        if not self.is_usable or (self._lock >= 0) != locked:
            raise LogError("the writer is closed, or an earlier append failed", hint="open the log again")

    def _place(self, entries: Sequence[bytes], keys: list[bytes]) -> tuple[tuple[int, ...], list[bytes]]:
        """The index of every entry, and those that are not in the log yet."""
        placed: dict[bytes, tuple[int, bytes]] = {}
        fresh: list[bytes] = []
        for key, raw in zip(keys, entries, strict=True):
            known = placed.get(key) or self._find(key)
            if known is None:
                known = (self._head.size + len(fresh), raw)
                fresh.append(raw)
            placed[key] = known
            if known[1] != raw:
                name = key.decode(errors="replace").strip()
                raise LogConflictError(f"{name} is in the log already, with another entry", known[1])
        return tuple(placed[key][0] for key in keys), fresh

    def _find(self, key: bytes) -> tuple[int, bytes] | None:
        found = ((at, self._entry(at)) for at in self._keys.candidates(key))
        return next(((at, raw) for at, raw in found if raw.endswith(b"\n" + key)), None)

    def _entry(self, index: int) -> bytes:
        if index >= self._head.size - len(self._tail):
            return self._tail[index - (self._head.size - len(self._tail))]
        return Tiles(self._folder, self._head.size).entry(index)

    def _extend(self, fresh: list[bytes]) -> None:
        size, old = self._head.size, list(self._edge.partial())
        self._disk.make_folder(str(self._writing))
        before = {(level, number, len(row)) for level, number, row in old}
        edge, touched = self._edge.copy(), set[str]()
        for level, number, data in edge.extend(tree.leaf_hashes(fresh)):
            self._write(tile_path(level, number), data, touched)
        for level, number, row in edge.partial():
            if (level, number, len(row)) not in before:
                self._write(tile_path(level, number, len(row) // tree.HASH_BYTES), row, touched)
        tail, number = self._tail + fresh, (size - len(self._tail)) // WIDTH
        for at in range(0, len(tail), WIDTH):
            part = tail[at : at + WIDTH]
            path = tile_path(ENTRIES, number + at // WIDTH, len(part))
            self._write(path, tiles.join_bundle(part), touched)
        self._disk.settle()
        self._disk.sync_folders(self._path(folder) for folder in sorted(touched))
        self._sign(Checkpoint(self._head.origin, edge.size, edge.root()))
        self._edge, self._tail = edge, tail[len(tail) // WIDTH * WIDTH :]
        for level, number, _ in old:
            if (edge.size >> tiles.HEIGHT * level) // WIDTH > number:
                for kind in (level, ENTRIES) if not level else (level,):
                    self._drop_partial(f"{tile_path(kind, number)}.p")
        self._disk.remove(str(self._writing))

    def _make(self, folder: Path) -> None:
        """Create a folder with the missing ones above it, durably."""
        missing = [folder, *folder.parents]
        for path in reversed([one for one in missing if not one.exists()]):
            self._disk.make_folder(str(path))
            self._disk.sync_folders([str(path.parent)])

    def _path(self, relative: str) -> str:
        return f"{self._folder}/{relative}" if relative else str(self._folder)

    def _write(self, relative: str, data: bytes, touched: set[str]) -> None:
        """Write a file of the log; `touched` collects the folders whose names must be made durable."""
        folder = relative.rpartition("/")[0]
        if folder not in touched:
            parts = folder.split("/")
            for end in range(len(parts) + 1):
                above = "/".join(parts[:end])
                if above and above not in touched:
                    self._disk.make_folder(self._path(above))
                touched.add(above)
        self._disk.write(self._path(relative), data)

    def _drop_partial(self, folder: str) -> None:
        path = self._path(folder)
        if os.path.isdir(path):
            for name in sorted(os.listdir(path)):
                self._disk.remove(f"{path}/{name}")
            self._disk.remove(path)

    def _sign(self, head: Checkpoint) -> None:
        """Write down what will be signed, sign it, publish it."""
        self._disk.publish(str(self._signed), head.body())
        self._publish(checkpoint.sign_checkpoint(head, self._key))

    def _publish(self, raw: bytes) -> None:
        signed = checkpoint.open_checkpoint(raw, self._log)  # a key that signs wrongly is noticed here
        self._disk.publish(self._path(CHECKPOINT_FILE), raw)
        self._note, self._head = signed.note, signed.checkpoint

    def _recover(self) -> note.Note:
        """Publish the last intent, remove what is beyond it."""
        origin, published_path = self._log.origin, self._folder / CHECKPOINT_FILE
        has_intent, has_published = self._signed.exists(), published_path.exists()
        if not has_intent and not has_published:
            self._sign(Checkpoint(origin, 0, tree.EMPTY_ROOT))
            return self._note
        if not has_intent:
            raise LogStateError(
                f"the record of what was last signed for {origin} is missing",
                hint="restore it, or close this log and begin a new shard",
            )
        intent = checkpoint.parse_body(tiles.read_file(self._signed, 1024), "checkpoint-form")
        published = Checkpoint(origin, 0, tree.EMPTY_ROOT)
        if has_published:
            raw = tiles.read_file(published_path, note.LIMIT_BYTES)
            signed = checkpoint.open_checkpoint(raw, self._log)
            published, self._note, self._head = signed.checkpoint, signed.note, signed.checkpoint
        self._check_order(intent, published)
        if not has_published or intent.size > published.size:
            self._publish(checkpoint.sign_checkpoint(intent, self._key))
        self._clean(intent.size, everything=True)
        return self._note

    def _clean(self, size: int, *, everything: bool) -> None:
        """Remove what an interrupted writer left; unless `everything`, tiles only if there was one."""
        cleaning.drop_left_over(self._folder, self._disk)
        if everything or self._writing.exists():
            cleaning.clean_tiles(self._folder, size, self._disk)
        if self._writing.exists():
            self._disk.remove(str(self._writing))

    def _check_order(self, intent: Checkpoint, published: Checkpoint) -> None:
        """The intent is the published head or one that goes on from it, with all its tiles there."""
        if intent.origin != published.origin or intent.size < published.size:
            raise LogStateError(
                f"the record says that {intent.origin} was last signed at {intent.size}, published is "
                f"{published.origin} at {published.size}: one of the two is an old copy"
            )
        store = Tiles(self._folder, intent.size)
        if published.size:
            path = store.consistency_proof(published.size)
            tree.verify_consistency(published.size, published.root, intent.size, intent.root, path)
        if store.root() != intent.root:
            raise LogStateError(
                f"size {intent.size} was signed with another root than the files have",
                hint="restore the files; a size is never signed twice with different roots",
            )

    def _read_edge(self) -> Edge:
        edge = Tiles(self._folder, self._head.size).edge()
        if edge.root() != self._head.root:
            raise LogStateError(f"the files of {self._head.origin} do not give the root that was signed")
        return edge

    def _read_keys(self, known: int) -> None:
        """The keys of the entries from `known` on, and the last bundle while it is partial."""
        store, size = Tiles(self._folder, self._head.size), self._head.size
        self._tail = []
        for number in range(known // WIDTH, (size + WIDTH - 1) // WIDTH):
            entries = store.entries(number)
            self._keys.extend(keys_of(entries[max(known - number * WIDTH, 0) :]), unseen=False)
            if len(entries) < WIDTH:
                self._tail = entries


def end_log(state: Path, follower: str, disk: Disk) -> None:
    """Write down, durably, that a log ended; to be called under its lock. Raises `LogStateError`."""
    path, told = state / CLOSED_FILE, f"{follower}\n".encode()
    if path.exists() and path.read_bytes() != told:
        raise LogStateError(f"this log ended already, and another than {follower} goes on from it")
    if not path.exists():
        disk.publish(str(path), told)


def keys_of(entries: Sequence[bytes]) -> list[bytes]:
    """The unique key of every entry; raises `LogError` for one that cannot be an entry."""
    keys = [raw[raw.rfind(b"\n", 0, -1) + 1 :] for raw in entries]
    # A key has no line feed but its last byte, so the count tells whether all of them have that one.
    if b"".join(keys).count(b"\n") != len(keys) or max(map(len, entries), default=0) > tiles.MAX_ENTRY_BYTES:
        raise LogError("an entry is too long, or does not end in a line feed")
    return keys


def lock(folder: Path) -> int:
    """Lock the folder of a log; a descriptor to be closed. The kernel lets go of it when the process dies."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise LogStateError(f"the folder of the log is gone: {folder}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise LogBusyError(f"another process writes the log in {folder.name}") from None
    return descriptor
