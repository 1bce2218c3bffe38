"""Seeded keys, entries, logs and witnesses for the named log files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from orchestrator.certificates.keys import SigningKey
from orchestrator.log import tree
from orchestrator.log.checkpoint import Checkpoint, log_key, sign_checkpoint
from orchestrator.log.entry import Position, statement_entry
from orchestrator.log.files import Disk
from orchestrator.log.note import Kind, Signature, VerifierKey
from orchestrator.log.proof import ConsistencyProof, LogVerifier, TlogProof
from orchestrator.log.reader import LogReader
from orchestrator.log.witness import cosigned_message
from orchestrator.log.writer import LogWriter

ORIGIN = "assize.example/log/2026"
SCREENING = "01JAA00000000000000000000A"
NOON = 1_790_942_400  # 2026-10-02T12:00:00Z


def signing_key(name: str) -> SigningKey:
    """A key that is the same in every run."""
    return SigningKey.from_seed(hashlib.sha256(b"assize log test key " + name.encode()).digest())


def entry(task: str, index: int = 1, attempt: int = 1, *, says: str = "passed") -> bytes:
    """The entry of a statement about a try; `says` stands for its content."""
    key = signing_key("certificate")
    signed = f"statement {task} {index} {attempt} {says}".encode()
    return statement_entry(signed, key.keyid, key.sign(signed), Position(SCREENING, task, index, attempt))


def entries(count: int, prefix: str = "task") -> list[bytes]:
    """Entries of different tries."""
    return [entry(f"{prefix}-{number:03}") for number in range(count)]


class FastDisk(Disk):
    """Does not wait for the disk: these files are made again whenever they are needed."""

    def _each(self, descriptors: list[int]) -> None:
        return


class Witness:
    """A witness with an Ed25519 cosignature key."""

    def __init__(self, name: str, seed: str = "") -> None:
        self._key = signing_key(seed or name)
        self.key = VerifierKey(name, Kind.COSIGNATURE_ED25519, self._key.public)

    def cosign(self, checkpoint: Checkpoint, seconds: int = NOON) -> Signature:
        """A cosignature at `seconds` (POSIX)."""
        signature = self._key.sign(cosigned_message(self.key, checkpoint, seconds))
        return Signature(self.key.name, self.key.keyid, seconds.to_bytes(8, "big") + signature)


class PostQuantumWitness:
    """A witness with an ML-DSA-44 key (its signatures differ from run to run)."""

    def __init__(self, name: str) -> None:
        self._key = MLDSA44PrivateKey.from_seed_bytes(hashlib.sha256(name.encode()).digest())
        raw = self._key.public_key().public_bytes_raw()
        self.key = VerifierKey(name, Kind.COSIGNATURE_ML_DSA_44, raw)

    def cosign(self, checkpoint: Checkpoint, seconds: int = NOON) -> Signature:
        """A cosignature at `seconds` (POSIX)."""
        signature = self._key.sign(cosigned_message(self.key, checkpoint, seconds))
        return Signature(self.key.name, self.key.keyid, seconds.to_bytes(8, "big") + signature)


class Log:
    """A log in memory that any lie can be signed with."""

    def __init__(self, items: Sequence[bytes], key: str = "log", origin: str = ORIGIN) -> None:
        self.items = list(items)
        self.key = signing_key(key)
        self.origin = origin
        self.leaves = [tree.leaf_hash(raw) for raw in self.items]

    @property
    def vkey(self) -> str:
        """The published key of the log."""
        return log_key(self.origin, self.key.public).key.vkey

    def head(self, size: int | None = None) -> Checkpoint:
        """The tree head at `size`, by default of all entries."""
        size = len(self.leaves) if size is None else size
        return Checkpoint(self.origin, size, tree.root(self.leaves[:size]))

    def signed(self, size: int | None = None, more: Sequence[Signature] = ()) -> bytes:
        """The signed checkpoint."""
        return sign_checkpoint(self.head(size), self.key, more)

    def node(self, level: int, index: int) -> bytes:
        """A complete subtree, hashed from the leaves."""
        return tree.root(self.leaves[index << level : (index + 1) << level])

    def prove(self, index: int, size: int | None = None, more: Sequence[Signature] = ()) -> TlogProof:
        """The proof of an entry in the tree of `size`."""
        size = len(self.leaves) if size is None else size
        path = tree.inclusion_proof(self.node, index, size)
        return TlogProof(index, tuple(path), self.signed(size, more))

    def prove_consistency(self, old_size: int, size: int | None = None) -> ConsistencyProof:
        """The proof between two sizes."""
        size = len(self.leaves) if size is None else size
        path = tree.consistency_proof(self.node, old_size, size)
        return ConsistencyProof(old_size, tuple(path), self.signed(size))

    def write(self, folder: Path, state: Path) -> LogReader:
        """The same log as files, written by the real writer."""
        with LogWriter(folder, state, self.origin, self.key, disk=FastDisk()) as writer:
            for start in range(0, len(self.items), 100):
                writer.append(self.items[start : start + 100])
        return LogReader(folder, LogVerifier(log_key(self.origin, self.key.public)))
