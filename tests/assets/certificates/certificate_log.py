"""A log in memory that any lie can be signed with, and witnesses, for the named certificate files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from certificate_world import ORIGIN, key

from orchestrator.certificates.bundle import ScreeningProofs
from orchestrator.certificates.logbook import entry_of
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log import tiles, tree
from orchestrator.log.checkpoint import Checkpoint, sign_checkpoint
from orchestrator.log.entry import Position, statement_entry
from orchestrator.log.note import Kind, Signature, VerifierKey
from orchestrator.log.proof import ConsistencyProof, TlogProof
from orchestrator.log.witness import cosigned_message


def filler(number: int, name: str = "filler") -> bytes:
    """An entry of somebody else's try."""
    signed = f"{name} {number}".encode()
    where = Position("01JAA00000000000000000000A", f"{name}-{number}", 1, 1)
    return statement_entry(signed, key("cert").keyid, key("cert").sign(signed), where)


class Witness:
    """A witness with an Ed25519 cosignature key."""

    def __init__(self, name: str, seed: str = "", kind: Kind = Kind.COSIGNATURE_ED25519) -> None:
        self._key = key(seed or name)
        self.key = VerifierKey(name, kind, self._key.public)

    def cosign(self, checkpoint: Checkpoint, seconds: int) -> Signature:
        """A cosignature at `seconds` (POSIX)."""
        signature = self._key.sign(cosigned_message(self.key, checkpoint, seconds))
        return Signature(self.key.name, self.key.keyid, seconds.to_bytes(8, "big") + signature)


class Log:
    """Entries in order; `envelopes` are those of them whose statement is known."""

    def __init__(self, trust: TrustRoot, origin: str = ORIGIN, signer: str = "log") -> None:
        self.trust, self.origin, self.key = trust, origin, key(signer)
        self.items: list[bytes] = []
        self.bodies: dict[str, bytes] = {}

    def fill(self, count: int, name: str = "filler") -> Log:
        """Append entries of others."""
        self.items += [filler(len(self.items) + number, name) for number in range(count)]
        return self

    def enter(self, *envelopes: bytes) -> Log:
        """Append statements."""
        for envelope in envelopes:
            raw = entry_of(envelope, self.trust)[1]
            self.items.append(raw)
            self.bodies[raw.split(b"\n")[1].decode()] = envelope
        return self

    def copy(self, origin: str = "", signer: str = "") -> Log:
        """A log that goes on (or lies) on its own."""
        other = Log(self.trust, origin or self.origin)
        other.key = key(signer) if signer else self.key
        other.items, other.bodies = list(self.items), dict(self.bodies)
        return other

    def index(self, envelope: bytes) -> int:
        """Where a statement is."""
        return self.items.index(entry_of(envelope, self.trust)[1])

    def head(self, size: int | None = None) -> Checkpoint:
        """The tree head at `size`, by default of all entries."""
        size = len(self.items) if size is None else size
        return Checkpoint(self.origin, size, tree.root([tree.leaf_hash(raw) for raw in self.items[:size]]))

    def signed(self, size: int | None = None, more: Sequence[Signature] = ()) -> bytes:
        """The signed checkpoint."""
        return sign_checkpoint(self.head(size), self.key, more)

    def _node(self, level: int, index: int) -> bytes:
        part = self.items[index << level : (index + 1) << level]
        return tree.root([tree.leaf_hash(raw) for raw in part])

    def prove_at(self, index: int, size: int | None = None, more: Sequence[Signature] = ()) -> TlogProof:
        """The proof of entry `index` in the tree of `size`."""
        size = len(self.items) if size is None else size
        path = tree.inclusion_proof(self._node, index, size)
        return TlogProof(index, tuple(path), self.signed(size, more))

    def prove(self, envelope: bytes, size: int | None = None, more: Sequence[Signature] = ()) -> bytes:
        """The text of a statement's proof."""
        return self.prove_at(self.index(envelope), size, more).encode()

    def consistency(self, old_size: int, size: int | None = None) -> bytes:
        """The text of the proof between two sizes."""
        size = len(self.items) if size is None else size
        path = tree.consistency_proof(self._node, old_size, size)
        return ConsistencyProof(old_size, tuple(path), self.signed(size)).encode()

    def shared(
        self,
        opening: bytes,
        tries: Sequence[bytes],
        summary: bytes | None,
        size: int | None = None,
        more: Sequence[Signature] = (),
    ) -> ScreeningProofs:
        """One checkpoint and the proofs of a whole screening."""
        named = {"opening": opening, **{f"{n:06d}": raw for n, raw in enumerate(tries, 1)}}
        if summary is not None:
            named["summary"] = summary
        members = {
            name: self.prove_at(self.index(raw), size).without_checkpoint() for name, raw in named.items()
        }
        return ScreeningProofs(self.signed(size, more), members)

    def write(self, folder: Path, *, withheld: frozenset[int] = frozenset()) -> Path:
        """The log as files, statements of `withheld` entries left out; lies are written as they are."""
        edge = tiles.Edge()
        leaves = tree.leaf_hashes(self.items)
        files = {tiles.tile_path(level, n): raw for level, n, raw in edge.extend(leaves)}
        for level, number, row in edge.partial():
            files[tiles.tile_path(level, number, len(row) // tree.HASH_BYTES)] = row
        for start in range(0, len(self.items), tiles.WIDTH):
            part = self.items[start : start + tiles.WIDTH]
            files[tiles.tile_path("entries", start // tiles.WIDTH, len(part))] = tiles.join_bundle(part)
        for index, raw in enumerate(self.items):
            digest = raw.split(b"\n")[1].decode()
            if digest in self.bodies and index not in withheld:
                files[statement_path(digest)] = self.bodies[digest]
        for path, raw in {**files, "checkpoint": self.signed()}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(raw)
        return folder
