"""Cosignatures for our own log: what is sent to witnesses, and what comes back.

A witness is asked by any means: its answer is a checkpoint with its line added, or that line alone. Lines
are believed only when a witness of the trust root's policy made them for a tree of this log. The newest
checkpoint that has as many as the policy asks for is published beside `checkpoint`, because the log goes
on before the witnesses have answered; proofs are made against it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.log import checkpoint, note, tiles, tree
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.errors import LogBusyError
from orchestrator.log.files import Disk
from orchestrator.log.note import Note, Signature
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import Tiles
from orchestrator.log.witness import Witnessing, cosignature_time
from orchestrator.log.writer import lock
from orchestrator.verification.errors import VerificationError

WITNESSED_FILE: Final = "checkpoint.witnessed"
SENT_FOLDER: Final = "sent"
KEPT_SENT: Final = 64
_WAIT_S: Final = 10.0
_PAUSE_S: Final = 0.02


@dataclass(frozen=True)
class Collected:
    """A checkpoint with the cosignatures it has by now; `added` names the witnesses that are new."""

    checkpoint: Checkpoint
    witnessing: Witnessing
    added: tuple[str, ...]


def newest(folder: Path, verifier: LogVerifier) -> tuple[bytes, Checkpoint, Witnessing] | None:
    """The newest checkpoint of the log in `folder` that is witnessed as the policy asks; None without one.

    Raises what `LogVerifier.open` does for a file that does not hold.
    """
    path = folder / WITNESSED_FILE
    if not path.exists():
        return None
    raw = tiles.read_file(path, note.LIMIT_BYTES)
    head, witnessing = verifier.open(raw)
    return (raw, head, witnessing) if witnessing.met and witnessing.times else None


def export(folder: Path, state: Path, verifier: LogVerifier) -> tuple[bytes, Checkpoint]:
    """The published checkpoint, to be sent to witnesses; kept in `state`, where `collect` finds it again."""
    raw = tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES)
    head, _ = verifier.open(raw)
    kept = state / SENT_FOLDER / f"{head.size:016}"
    if not kept.exists():
        _keep(kept, raw)
        for old in sorted(kept.parent.glob("[0-9]*"))[:-KEPT_SENT]:
            old.unlink(missing_ok=True)
    return raw, head


def collect(folder: Path, state: Path, verifier: LogVerifier, answer: bytes) -> Collected:
    """Take what a witness sent back; publishes the checkpoint once it has enough cosignatures.

    Raises `VerificationError`: `checkpoint-form` for what is neither, `origin`, `split-view` for a
    checkpoint that is not of this log's tree, `cosignature` for lines that no witness of the policy made
    for a checkpoint that was sent; `LogBusyError`.
    """
    with locked(folder):
        ours, lines = _meant(folder, state, verifier, answer)
        head, _ = verifier.open(ours)
        signed = note.parse(ours)
        fresh = [line for line in dict.fromkeys(lines) if line not in signed.signatures]
        added = tuple(dict.fromkeys(_witness(verifier, line, head) for line in fresh))
        whole = signed.with_signatures(fresh)
        raw = note.parse(whole.encode()).encode()  # a note with too many lines is refused here
        witnessing = verifier.open(raw)[1]
        _keep(state / SENT_FOLDER / f"{head.size:016}", raw)
        _publish(folder, verifier, whole, head, witnessing)
        return Collected(head, witnessing, added)


def _publish(
    folder: Path, verifier: LogVerifier, whole: Note, head: Checkpoint, witnessing: Witnessing
) -> None:
    """Serve the cosignatures: with the published checkpoint if it is that one, and as the witnessed one."""
    disk, path = Disk(), folder / CHECKPOINT_FILE
    published = note.parse(tiles.read_file(path, note.LIMIT_BYTES))
    more = [line for line in whole.signatures if line not in published.signatures]
    if published.text == whole.text and more:
        disk.publish(str(path), published.with_signatures(more).encode())
    known = newest(folder, verifier)
    if witnessing.met and witnessing.times and (known is None or head.size >= known[1].size):
        disk.publish(str(folder / WITNESSED_FILE), whole.encode())


def _meant(
    folder: Path, state: Path, verifier: LogVerifier, answer: bytes
) -> tuple[bytes, Sequence[Signature]]:
    """Our own note of the checkpoint that an answer is about, and the lines of others in the answer."""
    candidates = [path.read_bytes() for path in sorted((state / SENT_FOLDER).glob("[0-9]*"), reverse=True)]
    candidates.append(tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES))
    own = verifier.log.key
    if b"\n\n" in answer:
        given = note.parse(answer)
        body = checkpoint.parse_body(given.text)
        _check_ours(folder, verifier, body)
        lines = [line for line in given.signatures if (line.name, line.keyid) != (own.name, own.keyid)]
        for raw in candidates:
            if note.parse(raw).text == given.text:
                return raw, lines
        verifier.open(answer)  # an earlier checkpoint that carries our signature itself
        return Note(given.text, tuple(given.by(own))).encode(), lines
    lines = list(note.parse(b"-\n\n" + answer.rstrip(b"\n") + b"\n").signatures)
    for raw in candidates:
        head = verifier.open(raw)[0]
        if all(_made_by(verifier, line, head) for line in lines):
            return raw, lines
    raise VerificationError(
        "cosignature", "no witness of the trust root's policy made these lines for a checkpoint that was sent"
    )


def _check_ours(folder: Path, verifier: LogVerifier, seen: Checkpoint) -> None:
    """That a checkpoint is one of the tree in `folder`."""
    head, _ = verifier.open(tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES))
    if seen.origin != head.origin:
        raise VerificationError("origin", f"a checkpoint of {seen.origin:.200}, expected {head.origin}")
    if seen.size > head.size or tree.tree_root(Tiles(folder, head.size).node, seen.size) != seen.root:
        raise VerificationError("split-view", f"{head.origin} has no tree of size {seen.size} with this root")


def _made_by(verifier: LogVerifier, line: Signature, head: Checkpoint) -> str | None:
    """The name in the policy of the witness that made a line for this checkpoint."""
    for name, key in verifier.policy.witnesses.items():
        if (key.name, key.keyid) != (line.name, line.keyid) or key.raw == verifier.log.key.raw:
            continue
        if cosignature_time(key, line.blob, head) is not None:
            return name
    return None


def _witness(verifier: LogVerifier, line: Signature, head: Checkpoint) -> str:
    name = _made_by(verifier, line, head)
    if name is None:
        raise VerificationError(
            "cosignature", f"the line of {line.name:.200} is not a cosignature by a witness of the trust root"
        )
    return name


def _keep(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Disk().publish(str(path), raw)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a log's folder, nothing is entered meanwhile; `LogBusyError` after ten seconds."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            descriptor = lock(folder)
            break
        except LogBusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        os.close(descriptor)
