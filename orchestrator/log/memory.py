"""What a verifier remembers of a log: the last checkpoint it believed, to notice rollback and split views.

Without memory and without witnesses a fork is not noticed by anyone (certificates.md section 4, row 42).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from orchestrator.log import checkpoint, tiles, tree
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.verification.errors import VerificationError


def compare(remembered: Checkpoint, seen: Checkpoint, proof: Sequence[bytes] | None = None) -> None:
    """Check that two signed tree heads of one log are views of one growing tree.

    `proof` is the consistency proof between the smaller and the larger, None when there is none.
    Raises `VerificationError`: `rollback` (smaller than remembered, unproven), `consistency-missing`
    (larger, unproven: UNDECIDED), `split-view` (two roots, or a proof that does not hold), `origin`.
    """
    if remembered.origin != seen.origin:
        raise VerificationError("origin", f"{seen.origin:.200} is not {remembered.origin:.200}")
    if remembered.size == seen.size:
        if remembered.root != seen.root:
            raise VerificationError("split-view", f"two roots for the size {seen.size}")
        return
    old, new = sorted((remembered, seen), key=lambda one: one.size)
    if not old.size and old is remembered:
        return
    if proof is None or not old.size:
        if old is seen:
            raise VerificationError(
                "rollback", f"a checkpoint of size {seen.size}, remembered is {remembered.size}"
            )
        raise VerificationError(
            "consistency-missing", f"nothing proves that size {seen.size} goes on from {remembered.size}"
        )
    try:
        tree.verify_consistency(old.size, old.root, new.size, new.root, proof)
    except VerificationError as error:
        raise VerificationError("split-view", error.findings[0].detail) from None


class CheckpointMemory:
    """One file per log in a folder of the verifier; the file is the three lines of the largest checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, origin: str) -> Path:
        return self._folder / hashlib.sha256(origin.encode()).hexdigest()[:32]

    def recall(self, origin: str) -> Checkpoint | None:
        """The remembered checkpoint; a damaged memory is an error, never an empty one (`unreadable`)."""
        path = self._path(origin)
        if not path.exists():
            return None
        try:
            found = checkpoint.parse_body(tiles.read_file(path, 1024), "unreadable")
        except VerificationError as error:
            raise VerificationError("unreadable", f"the remembered checkpoint: {error.message}") from None
        if found.origin != origin:
            raise VerificationError("unreadable", "the remembered checkpoint is of another log")
        return found

    def remember(self, seen: Checkpoint) -> None:
        """Keep `seen` when it is larger than what is remembered; to be called after `compare`."""
        known = self.recall(seen.origin)
        if known is not None and known.size >= seen.size:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(seen.origin)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        with temporary.open("wb") as file:
            file.write(seen.body())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
