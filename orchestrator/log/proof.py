"""`c2sp.org/tlog-proof@v1`: an index, an audit path and a checkpoint in one text that is checked offline.

The same text with `old <size>` in front is what a witness is sent (C2SP tlog-witness); it carries a
consistency proof here.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.log import note, tree
from orchestrator.log.checkpoint import Checkpoint, LogKey, SignedCheckpoint, open_checkpoint
from orchestrator.log.witness import Witnessing, WitnessPolicy
from orchestrator.verification import wire
from orchestrator.verification.errors import Finding, VerificationError

HEADER: Final = b"c2sp.org/tlog-proof@v1\n"
EXTRA_LIMIT_BYTES: Final = 64 * 1024
LIMIT_BYTES: Final = note.LIMIT_BYTES + 2 * EXTRA_LIMIT_BYTES
_NUMBER: Final = rb"(0|[1-9][0-9]{0,18})"
# 43 characters carry 258 bits: the last one must end in two zero bits.
_HASH: Final = rb"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]="
_PATH: Final = rb"((?:%b\n){0,%d})\n" % (_HASH, tree.MAX_PROOF_HASHES)
_PROOF: Final = re.compile(
    re.escape(HEADER) + rb"(?:extra ([A-Za-z0-9+/=]+)\n)?index %b\n%b" % (_NUMBER, _PATH)
)
_CONSISTENCY: Final = re.compile(rb"old %b\n%b" % (_NUMBER, _PATH))


def _hashes(lines: bytes) -> tuple[bytes, ...]:
    return tuple([binascii.a2b_base64(line) for line in lines.split()])


def _lines(hashes: Sequence[bytes]) -> bytes:
    return b"".join(wire.base64_encode(item) + b"\n" for item in hashes) + b"\n"


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A parsed proof; nothing in it is trusted. `checkpoint` are the exact bytes of the signed note."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def encode(self) -> bytes:
        """The exact bytes of the proof."""
        return self.without_checkpoint() + self.checkpoint

    def without_checkpoint(self) -> bytes:
        """The part before the checkpoint, which many proofs may share."""
        extra = b"" if self.extra is None else b"extra %b\n" % wire.base64_encode(self.extra)
        return HEADER + extra + b"index %d\n" % self.index + _lines(self.path)


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """That the tree of `checkpoint` begins with an earlier (or equal) tree of `old_size` leaves."""

    old_size: int
    path: tuple[bytes, ...]
    checkpoint: bytes

    def encode(self) -> bytes:
        """The exact bytes, as a witness takes them."""
        return b"old %d\n" % self.old_size + _lines(self.path) + self.checkpoint


def _match(raw: bytes, form: re.Pattern[bytes], what: str) -> tuple[re.Match[bytes], bytes]:
    if len(raw) > LIMIT_BYTES:
        raise VerificationError("too-large", f"{what} of {len(raw)} bytes")
    match = form.match(raw)
    if match is None:
        raise VerificationError("proof-form", f"{what} that is not in its one strict form")
    return match, raw[match.end() :]


def parse_proof(raw: bytes) -> TlogProof:
    """Raises `VerificationError`: `too-large`, `proof-form`. The checkpoint is parsed when it is opened."""
    match, checkpoint = _match(raw, _PROOF, "a log proof")
    extra = None if match[1] is None else wire.base64_decode(match[1], "proof-form")
    if extra is not None and len(extra) > EXTRA_LIMIT_BYTES:
        raise VerificationError("too-large", f"a log proof with {len(extra)} bytes of extra data")
    return TlogProof(int(match[2]), _hashes(match[3]), checkpoint, extra)


def parse_consistency(raw: bytes) -> ConsistencyProof:
    """Raises `VerificationError`: `too-large`, `proof-form`."""
    match, checkpoint = _match(raw, _CONSISTENCY, "a consistency proof")
    return ConsistencyProof(int(match[1]), _hashes(match[2]), checkpoint)


@dataclass(frozen=True, slots=True)
class Located:
    """An entry that is in the log: its index, the checkpoint that says so, and who else saw that."""

    index: int
    checkpoint: Checkpoint
    witnessing: Witnessing


@dataclass(frozen=True, slots=True)
class Logged(Located):
    """The same with what must be said about witnesses."""

    notes: tuple[Finding, ...]


class LogVerifier:
    """Checks proofs against one trusted log and policy; a checkpoint shared by many proofs is opened once."""

    def __init__(self, log: LogKey, policy: WitnessPolicy | None = None) -> None:
        self.log = log
        self.policy = policy or WitnessPolicy()
        self._opened: tuple[bytes, SignedCheckpoint, Witnessing] | None = None
        self._paths = tree.KnownPaths(0, b"")

    def open(self, raw: bytes) -> tuple[Checkpoint, Witnessing]:
        """A checkpoint with its log signature and cosignatures checked; whether they suffice is not asked.

        Raises `VerificationError`: what `open_checkpoint` and `WitnessPolicy.judge` say.
        """
        if self._opened is None or self._opened[0] != raw:
            signed = open_checkpoint(raw, self.log)
            self._opened = (raw, signed, self.policy.judge(signed, self.log))
            self._paths = tree.KnownPaths(signed.checkpoint.size, signed.checkpoint.root)
        _, signed, witnessing = self._opened
        return signed.checkpoint, witnessing

    def locate(self, proof: TlogProof | bytes, entry: bytes) -> Located:
        """That `entry`, recomputed by the caller, is in the log at the index of the proof.

        Whether enough witnesses cosigned is not asked. Raises `VerificationError`: also `proof-form`,
        `inclusion`.
        """
        if isinstance(proof, bytes):
            proof = parse_proof(proof)
        checkpoint, witnessing = self.open(proof.checkpoint)
        self._paths.verify(tree.leaf_hash(entry), proof.index, proof.path)
        return Located(proof.index, checkpoint, witnessing)

    def check(self, proof: TlogProof | bytes, entry: bytes) -> Logged:
        """The same, and that enough witnesses cosigned: also raises `quorum` when all else holds."""
        found = self.locate(proof, entry)
        notes = witness_notes(found.witnessing)
        return Logged(found.index, found.checkpoint, found.witnessing, notes)


def witness_notes(witnessing: Witnessing) -> tuple[Finding, ...]:
    """What must be said about witnesses; raises `VerificationError` (`quorum`) when too few cosigned."""
    if not witnessing.met:
        raise VerificationError(
            "quorum", f"cosigned by {len(witnessing.times)} of {witnessing.known} witnesses, not enough"
        )
    return () if witnessing.required else (NOT_WITNESSED,)


NOT_WITNESSED: Final = Finding(
    "not-witnessed", "no witness quorum is asked for: a log that shows others another tree is not noticed"
)
