"""Reads a whole log again: every entry, every tile, the root, and whether anything was certified twice.

An auditor needs the log's folder and its key, nothing else. What is wrong with single entries is
collected; what makes the log not the one that was signed is raised.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Double:
    """One unique key with the indexes of its entries, all of them INVALID."""

    key: str
    indexes: tuple[int, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found; `findings` are the reasons with an exit code, `notes` what is only said."""

    checkpoint: Checkpoint
    witnessing: Witnessing
    doubles: tuple[Double, ...]
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]


class _Keys:
    """First index of every unique key (first half of its hash as the key, to hold millions)."""

    def __init__(self) -> None:
        self._first: dict[bytes, int] = {}
        self.doubles: dict[str, list[int]] = {}

    def add(self, key: bytes, index: int) -> None:
        first = self._first.setdefault(tree.leaf_hash(key)[:16], index)
        if first != index:
            self.doubles.setdefault(key.decode(), [first]).append(index)


def audit(folder: Path, verifier: LogVerifier, remembered: Checkpoint | None = None) -> Audit:
    """Check the log in `folder` against its own checkpoint and the remembered one.

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
    keys = _read_again(folder, checkpoint, remembered, findings)
    doubles = tuple(Double(key, tuple(indexes)) for key, indexes in sorted(keys.doubles.items()))
    for double in doubles:
        where = ", ".join(str(index) for index in double.indexes[:10])
        findings.append(Finding("double", f"{double.key} is certified more than once: entries {where}"))
    notes: tuple[Finding, ...] = ()
    try:
        notes = witness_notes(witnessing)
    except VerificationError as error:
        findings += error.findings
    return Audit(checkpoint, witnessing, doubles, tuple(findings), notes)


def _read_again(
    folder: Path, checkpoint: Checkpoint, remembered: Checkpoint | None, findings: list[Finding]
) -> _Keys:
    store, edge, keys = Tiles(folder, checkpoint.size), Edge(), _Keys()
    for number in range((checkpoint.size + WIDTH - 1) // WIDTH):
        entries = store.entries(number)
        for offset, raw in enumerate(entries):
            index = number * WIDTH + offset
            try:
                keys.add(entry.check(raw), index)
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
    return keys


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
