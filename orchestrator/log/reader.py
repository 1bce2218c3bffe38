"""A published log as its readers see it: the checkpoint, and proofs out of the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.log import note, tiles, tree
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.proof import ConsistencyProof, LogVerifier, TlogProof
from orchestrator.log.tiles import WIDTH, Tiles
from orchestrator.verification.errors import VerificationError


class LogReader:
    """Makes proofs against one checkpoint of the log in `folder`, by default the published one.

    Every proof is verified before it is handed out: damaged tiles raise `VerificationError`, they never
    become a bad proof. Also raises what `LogVerifier.open` says of the checkpoint.
    """

    def __init__(self, folder: Path, verifier: LogVerifier, checkpoint: bytes | None = None) -> None:
        raw = checkpoint
        if raw is None:
            raw = tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES)
        self.raw = raw
        self.checkpoint: Checkpoint = verifier.open(raw)[0]
        self.tiles = Tiles(folder, self.checkpoint.size)

    def find(self, entries: Sequence[bytes]) -> list[int]:
        """The index of every entry; raises `inclusion` for one that is not in the log.

        Looked for from the end: what is asked for is usually new. The index is proven by `prove` only.
        """
        wanted, found = set(entries), dict[bytes, int]()
        for number in range((self.checkpoint.size - 1) // WIDTH, -1, -1):
            if len(found) == len(wanted):
                break
            for at, raw in enumerate(self.tiles.entries(number), number * WIDTH):
                if raw in wanted:
                    found[raw] = at
        missing = next((raw for raw in entries if raw not in found), None)
        if missing is not None:
            key = missing.rstrip(b"\n").rpartition(b"\n")[2].decode(errors="replace")
            raise VerificationError("inclusion", f"{key} is not in the log of {self.checkpoint.size}")
        return [found[raw] for raw in entries]

    def prove(self, index: int) -> TlogProof:
        """The proof of entry `index`; `inclusion` when there is no such entry."""
        head = self.checkpoint
        if not 0 <= index < head.size:
            raise VerificationError("inclusion", f"no entry {index} in a log of {head.size}")
        path = self.tiles.inclusion_proof(index)
        tree.verify_inclusion(self.tiles.node(0, index), index, head.size, path, head.root)
        return TlogProof(index, tuple(path), self.raw)

    def prove_consistency(self, old: Checkpoint) -> ConsistencyProof:
        """The proof that this checkpoint goes on from `old`; raises `consistency` when it does not."""
        head = self.checkpoint
        path = self.tiles.consistency_proof(old.size) if 0 < old.size <= head.size else []
        tree.verify_consistency(old.size, old.root, head.size, head.root, path)
        return ConsistencyProof(old.size, tuple(path), self.raw)
