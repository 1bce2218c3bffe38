"""Checkpoints (C2SP tlog-checkpoint): origin, size and root of a log, signed by the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.log import note
from orchestrator.log.note import Kind, Note, Signature, VerifierKey
from orchestrator.log.tree import EMPTY_ROOT
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import VerificationError

MAX_SIZE: Final = 2**63 - 1
_BODY: Final = re.compile(rb"([^\n]+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n")


class NoteKey(Protocol):
    """Whatever holds the log's Ed25519 key."""

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""

    def sign(self, message: bytes) -> bytes:
        """A 64-byte Ed25519 signature."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree head: `size` leaves with the root `root`, of the log `origin`."""

    origin: str
    size: int
    root: bytes

    def body(self) -> bytes:
        """The three lines that are signed."""
        return b"%b\n%d\n%b\n" % (self.origin.encode(), self.size, wire.base64_encode(self.root))


@dataclass(frozen=True)
class LogKey:
    """Who may sign the checkpoints of `origin`; the origin is usually the key's name."""

    origin: str
    key: VerifierKey
    public: Ed25519PublicKey

    @classmethod
    def parse(cls, vkey: str, origin: str | None = None) -> LogKey:
        """From a published key; raises `VerificationError` (`trust-root`) for one that is not usable."""
        key = note.parse_vkey(vkey, "trust-root")
        if key.kind is not Kind.ED25519:
            raise VerificationError("trust-root", f"the log key {key.name} is not an Ed25519 note key")
        return cls(origin or key.name, key, ed25519.public_key(key.raw))


@dataclass(frozen=True)
class SignedCheckpoint:
    """A checkpoint that the log has signed, with its note (which may carry cosignatures)."""

    checkpoint: Checkpoint
    note: Note


def parse_body(text: bytes, reason: str = "checkpoint-form") -> Checkpoint:
    """The three lines of a checkpoint; extension lines are refused, no monitor could audit them."""
    match = _BODY.fullmatch(text)
    if match is None:
        raise VerificationError(reason, "a checkpoint that is not origin, size and root")
    size, root = int(match[2]), wire.base64_decode(match[3], reason)
    if size > MAX_SIZE or (not size and root != EMPTY_ROOT):
        raise VerificationError(reason, f"a checkpoint with a size of {size} and an impossible root")
    try:
        return Checkpoint(match[1].decode(), size, root)
    except UnicodeDecodeError:
        raise VerificationError(reason, "a checkpoint that is not UTF-8") from None


def open_checkpoint(raw: bytes, log: LogKey) -> SignedCheckpoint:
    """Parse a checkpoint and check origin and log signature.

    Raises `VerificationError`: `checkpoint-form`, `origin`, `checkpoint-unsigned`. Every line that names
    the log's key must verify; lines of other keys are not looked at.
    """
    signed = note.parse(raw)
    found = parse_body(signed.text)
    if found.origin != log.origin:
        raise VerificationError("origin", f"a checkpoint of {found.origin:.200}, expected {log.origin}")
    lines = signed.by(log.key)
    if not lines:
        raise VerificationError("checkpoint-unsigned", f"no signature by the key of {log.origin}")
    if not all(ed25519.verifies(log.public, line.blob, signed.text) for line in lines):
        raise VerificationError("checkpoint-unsigned", f"the signature of {log.origin} does not verify")
    return SignedCheckpoint(found, signed)


def log_key(origin: str, public: bytes) -> LogKey:
    """The key of a log whose key name is its origin."""
    return LogKey.parse(VerifierKey(origin, Kind.ED25519, public).vkey)


def sign_checkpoint(checkpoint: Checkpoint, key: NoteKey, more: Sequence[Signature] = ()) -> bytes:
    """The signed note of a checkpoint; Ed25519 gives the same bytes every time."""
    body = checkpoint.body()
    keyid = VerifierKey(checkpoint.origin, Kind.ED25519, key.public).keyid
    return Note(body, (Signature(checkpoint.origin, keyid, key.sign(body)), *more)).encode()
