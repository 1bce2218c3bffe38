"""The Merkle tree of RFC 6962 section 2.1: hashes, proofs, and the two verifiers.

Proofs are computed over any source of complete subtrees (`Node`), so that memory and tiles share one
algorithm. Sizes and indexes are plain integers; a hash is 32 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from orchestrator.verification.errors import VerificationError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256().digest()
MAX_PROOF_HASHES: Final = 63

Node = Callable[[int, int], bytes]
"""(level, index) -> hash of the complete subtree over the leaves [index << level, (index + 1) << level)."""

_sha256 = hashlib.sha256


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(0x00 || entry)."""
    return _sha256(b"\x00" + entry).digest()


def leaf_hashes(entries: Sequence[bytes]) -> bytes:
    """The concatenated leaf hashes of many entries."""
    return b"".join([_sha256(b"\x00" + raw).digest() for raw in entries])


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return _sha256(b"\x01" + left + right).digest()


def parents(hashes: bytes) -> bytes:
    """The next level up of an even number of concatenated hashes."""
    return b"".join(
        [_sha256(b"\x01" + hashes[at : at + 64]).digest() for at in range(0, len(hashes), 2 * HASH_BYTES)]
    )


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes; of no leaves, the hash of nothing."""
    if not leaves:
        return EMPTY_ROOT
    row = list(leaves)
    while len(row) > 1:
        # An odd last node moves up unchanged: RFC 6962 never duplicates it.
        odd = row[-1:] if len(row) % 2 else []
        row = [node_hash(row[at], row[at + 1]) for at in range(0, len(row) - 1, 2)] + odd
    return row[0]


def _split(size: int) -> int:
    """The largest power of two below `size` (at least 2)."""
    return 1 << (size - 1).bit_length() - 1


def range_hash(node: Node, start: int, end: int) -> bytes:
    """The hash of the leaves [start, end), a range that occurs in the tree; at least one leaf."""
    parts = []
    while start < end:
        level = (end - start).bit_length() - 1
        parts.append(node(level, start >> level))
        start += 1 << level
    found = parts.pop()
    for part in reversed(parts):
        found = node_hash(part, found)
    return found


def tree_root(node: Node, size: int) -> bytes:
    """The root of the first `size` leaves."""
    return range_hash(node, 0, size) if size else EMPTY_ROOT


def inclusion_proof(node: Node, index: int, size: int) -> list[bytes]:
    """The audit path of leaf `index` in the tree of `size`, leaf's sibling first."""
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    start, end, proof = 0, size, []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(range_hash(node, middle, end))
            end = middle
        else:
            proof.append(range_hash(node, start, middle))
            start = middle
    return proof[::-1]


def consistency_proof(node: Node, old_size: int, size: int) -> list[bytes]:
    """The proof that the first `old_size` leaves of the tree of `size` are an earlier tree."""
    if not 0 < old_size <= size:
        raise ValueError(f"no consistency between sizes {old_size} and {size}")
    start, end, proof = 0, size, []
    while end != old_size:
        middle = start + _split(end - start)
        if old_size <= middle:
            proof.append(range_hash(node, middle, end))
            end = middle
        else:
            proof.append(range_hash(node, start, middle))
            start = middle
    if start:  # otherwise the verifier knows it: it is the old root
        proof.append(range_hash(node, start, end))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], expected: bytes) -> None:
    """Check that `leaf` is number `index` of the tree of `size` with root `expected`.

    Raises `VerificationError` (`inclusion`).
    """
    if not 0 <= index < size or len(leaf) != HASH_BYTES or len(expected) != HASH_BYTES:
        raise VerificationError("inclusion", f"no leaf {index} in a tree of {size}")
    if proof and set(map(len, proof)) != {HASH_BYTES}:
        raise VerificationError("inclusion", "a hash of the proof is not 32 bytes")
    at, last, found = index, size - 1, leaf
    for item in proof:
        if not last:
            raise VerificationError("inclusion", "the proof is longer than the tree is high")
        if at & 1 or at == last:
            found = _sha256(b"\x01" + item + found).digest()
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = _sha256(b"\x01" + found + item).digest()
        at, last = at >> 1, last >> 1
    if last or found != expected:
        raise VerificationError("inclusion", f"the proof does not lead from entry {index} to the root")


class KnownPaths:
    """Checks many leaves of one tree; what a proof has shown is not hashed again for its neighbours.

    Accepts exactly what `verify_inclusion` does: a node that is known must be met with its own hash and
    with the same rest of the path, anything else would not lead to the root.
    """

    def __init__(self, size: int, root: bytes) -> None:
        self._size, self._root = size, root
        self._known: dict[tuple[int, int], tuple[bytes, Sequence[bytes]]] = {}

    def verify(self, leaf: bytes, index: int, proof: Sequence[bytes]) -> None:
        """As `verify_inclusion`; raises `VerificationError` (`inclusion`)."""
        at, last, found, known = index, self._size - 1, leaf, self._known
        climbed: list[tuple[tuple[int, int], bytes]] = []
        for used, item in enumerate(proof):
            place = (at, last)  # `last` tells the level
            if place in known:
                if known[place] == (found, proof[used:]) and 0 <= index < self._size:
                    self._keep(climbed, proof)
                    return
                break
            if last <= 0 or len(item) != HASH_BYTES:
                break
            climbed.append((place, found))
            if at & 1 or at == last:
                found = _sha256(b"\x01" + item + found).digest()
                while not at & 1 and at:
                    at, last = at >> 1, last >> 1
            else:
                found = _sha256(b"\x01" + found + item).digest()
            at, last = at >> 1, last >> 1
        verify_inclusion(leaf, index, self._size, proof, self._root)
        self._keep(climbed, proof)

    def _keep(self, climbed: list[tuple[tuple[int, int], bytes]], proof: Sequence[bytes]) -> None:
        for used, (place, found) in enumerate(climbed):
            self._known[place] = (found, proof[used:])


def verify_consistency(
    old_size: int, old_root: bytes, size: int, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Check that the tree of `size` with `new_root` begins with the tree of `old_size` with `old_root`.

    The empty tree is refused: it begins every tree and says nothing. Raises `VerificationError`
    (`consistency`).
    """
    if not 0 < old_size <= size or not old_root or not new_root:
        raise VerificationError("consistency", f"no consistency between sizes {old_size} and {size}")
    if old_size == size:
        if proof or old_root != new_root:
            raise VerificationError("consistency", f"two roots for the size {size}")
        return
    if not proof or any(len(item) != HASH_BYTES for item in proof):
        raise VerificationError("consistency", "a hash of the proof is missing or not 32 bytes")
    at, last = old_size - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    path = [old_root, *proof] if not at else list(proof)
    old = new = path[0]
    for item in path[1:]:
        if not last:
            raise VerificationError("consistency", "the proof is longer than the tree is high")
        if at & 1 or at == last:
            old, new = node_hash(item, old), node_hash(item, new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new = node_hash(new, item)
        at, last = at >> 1, last >> 1
    if last or old != old_root or new != new_root:
        raise VerificationError(
            "consistency", f"the tree of {size} does not begin with the tree of {old_size} that is known"
        )
