"""Reads a whole log again: every entry, every tile, the root, and whether anything was certified twice.

An auditor needs the log's folder and its key, nothing else. What is wrong with single entries is
collected; what makes the log not the one that was signed is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.log import entry, memory, note, tiles, tree
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.proof import LogVerifier, witness_notes
from orchestrator.log.tiles import WIDTH, Edge, Tiles
from orchestrator.log.witness import Witnessing
from orchestrator.verification.errors import Finding, VerificationError

CHECKPOINT_FILE: Final = "checkpoint"
_INDEX_BITS: Final = 48


@dataclass(frozen=True)
class Double:
    """One unique key with the indexes of its entries, all of them INVALID.

    `elsewhere` says of entries in earlier shards where they are.
    """

    key: str
    indexes: tuple[int, ...]
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audit:
    """What an audit found; `findings` are the reasons with an exit code, `notes` what is only said."""

    checkpoint: Checkpoint
    witnessing: Witnessing
    doubles: tuple[Double, ...]
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]


class Keys:
    """First place of every unique key (first half of its hash as the key, to hold millions).

    One is passed from audit to audit where a log has shards, so that it is seen across them. There the same
    statement may come once more where the earlier entry is void, as `is_void` says of (origin, index, entry).
    """

    def __init__(self, is_void: Callable[[str, int, bytes], bool] = lambda *_: False) -> None:
        self._is_void = is_void
        self._first: dict[bytes, int] = {}
        self._shards: list[tuple[str, Tiles]] = []
        self._doubles: dict[str, list[int]] = {}

    def begin(self, origin: str, store: Tiles) -> None:
        """What is added from here on is in the log of `origin`, with its entries in `store`."""
        self._shards.append((origin, store))
        self._doubles.clear()

    def add(self, key: bytes, index: int, raw: bytes) -> None:
        """One more entry, `raw` with this key."""
        place, name = len(self._shards) << _INDEX_BITS | index, tree.leaf_hash(key)[:16]
        first = self._first.setdefault(name, place)
        if first != place and self._is_again(first, raw):
            self._first[name] = place
        elif first != place:
            self._doubles.setdefault(key.decode(), [first]).append(place)

    def _is_again(self, first: int, raw: bytes) -> bool:
        """Whether the entry at `first` is a void one of an earlier shard, of the same statement as `raw`."""
        shard, index = first >> _INDEX_BITS, first & (1 << _INDEX_BITS) - 1
        if shard == len(self._shards):
            return False
        origin, store = self._shards[shard - 1]
        held = store.entry(index)
        return held.split(b"\n")[1] == raw.split(b"\n")[1] and self._is_void(origin, index, held)

    def doubles(self) -> tuple[Double, ...]:
        """Every key of which the current shard has an entry too many."""
        found = []
        for key, places in sorted(self._doubles.items()):
            split = [(place >> _INDEX_BITS, place & (1 << _INDEX_BITS) - 1) for place in places]
            here = tuple(index for shard, index in split if shard == len(self._shards))
            others = [f"{index} of {self._shards[n - 1][0]}" for n, index in split if n < len(self._shards)]
            found.append(Double(key, here, tuple(others)))
        return tuple(found)


def audit(
    folder: Path, verifier: LogVerifier, remembered: Checkpoint | None = None, keys: Keys | None = None
) -> Audit:
    """Check the log in `folder` against its own checkpoint and the remembered one.

    `keys` are those of earlier shards, in which no key of this one may be.

    Raises `VerificationError` when the checkpoint is bad (see `LogVerifier.open`), a file is missing
    (`log-missing`) or not what its tree says (`log-tile`), the entries do not give the signed root
    (`log-root`), or the remembered tree is not the beginning of this one (`rollback`, `split-view`).
    """
    raw = tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES)
    checkpoint, witnessing = verifier.open(raw)
    if remembered is not None and remembered.size >= checkpoint.size:
        memory.compare(remembered, checkpoint)
        remembered = None
    findings: list[Finding] = []
    keys = Keys() if keys is None else keys
    keys.begin(checkpoint.origin, Tiles(folder, checkpoint.size))
    _read_again(folder, checkpoint, remembered, findings, keys)
    doubles = keys.doubles()
    for double in doubles:
        where = ", ".join([*double.elsewhere[:10], *map(str, double.indexes[:10])])
        findings.append(Finding("double", f"{double.key} is certified more than once: entries {where}"))
    notes: tuple[Finding, ...] = ()
    try:
        notes = witness_notes(witnessing)
    except VerificationError as error:
        findings += error.findings
    return Audit(checkpoint, witnessing, doubles, tuple(findings), notes)


def _read_again(
    folder: Path,
    checkpoint: Checkpoint,
    remembered: Checkpoint | None,
    findings: list[Finding],
    keys: Keys,
) -> None:
    store, edge = Tiles(folder, checkpoint.size), Edge()
    for number in range((checkpoint.size + WIDTH - 1) // WIDTH):
        entries = store.entries(number)
        for offset, raw in enumerate(entries):
            index = number * WIDTH + offset
            try:
                keys.add(entry.check(raw), index, raw)
            except VerificationError as error:
                findings.append(Finding("entry-form", f"entry {index}: {error.findings[0].detail}"))
        leaves = tree.leaf_hashes(entries)
        if remembered is not None and edge.size <= remembered.size < edge.size + len(entries):
            _check_beginning(edge, leaves, remembered)
        for level, tile_number, expected in edge.extend(leaves):
            _compare_tile(store, level, tile_number, expected)
    for level, tile_number, expected in edge.partial():
        _compare_tile(store, level, tile_number, expected)
    if edge.root() != checkpoint.root:
        raise VerificationError("log-root", f"the {edge.size} entries do not give the signed root")


def _check_beginning(edge: Edge, leaves: bytes, remembered: Checkpoint) -> None:
    then = edge.copy()
    for _ in then.extend(leaves[: (remembered.size - edge.size) * tree.HASH_BYTES]):
        pass
    if then.root() != remembered.root:
        raise VerificationError(
            "split-view", f"the log does not begin with the tree of {remembered.size} that is remembered"
        )


def _compare_tile(store: Tiles, level: int, number: int, expected: bytes) -> None:
    if store.tile(level, number) != expected:
        path = tiles.tile_path(level, number)
        raise VerificationError("log-tile", f"{path} is not what the entries below it give")
