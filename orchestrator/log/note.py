"""C2SP signed notes and verifier keys: text, an empty line, signature lines.

A parsed note re-encodes to its exact bytes. Nothing in it is trusted until a key of the verifier's own
trust root has verified a line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

LIMIT_BYTES: Final = 128 * 1024
MAX_SIGNATURES: Final = 32
KEY_ID_BYTES: Final = 4
_DASH: Final = "— "
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_VKEY: Final = re.compile(r"([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)")


class Kind(IntEnum):
    """The signature types that are understood; the number is the type byte of the key."""

    ED25519 = 0x01
    COSIGNATURE_ED25519 = 0x04
    COSIGNATURE_ML_DSA_44 = 0x06


KEY_BYTES: Final = {Kind.ED25519: 32, Kind.COSIGNATURE_ED25519: 32, Kind.COSIGNATURE_ML_DSA_44: 1312}


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key under a name. `keyid` is the four bytes that a signature line carries."""

    name: str
    kind: Kind
    raw: bytes

    @property
    def keyid(self) -> bytes:
        """SHA-256(name || LF || type || key), first four bytes."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.raw).digest()[:4]

    @property
    def vkey(self) -> str:
        """The published spelling: name, key id, and type and key in base64."""
        material = wire.base64_encode(bytes([self.kind]) + self.raw).decode()
        return f"{self.name}+{self.keyid.hex()}+{material}"


def is_name(name: str) -> bool:
    """Whether a key name is UTF-8, not empty and has no white space and no plus (C2SP signed-note)."""
    return bool(name) and not any(c == "+" or c.isspace() or "\ud800" <= c <= "\udfff" for c in name)


def parse_vkey(text: str, reason: str = "witness-policy") -> VerifierKey:
    """The key of a `vkey`; raises `VerificationError` with `reason`."""
    match = _VKEY.fullmatch(text)
    if match is None or not is_name(match[1]):
        raise VerificationError(reason, "a verifier key that is not name+id+key")
    material = wire.base64_decode(match[3].encode(), reason)
    if material[0] not in Kind.__members__.values():
        raise VerificationError(reason, f"the key {match[1]} has the unknown type {material[0]}")
    key = VerifierKey(match[1], Kind(material[0]), material[1:])
    if len(key.raw) != KEY_BYTES[key.kind] or key.keyid.hex() != match[2]:
        raise VerificationError(reason, f"the key {match[1]} has a wrong length or key id")
    return key


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line: who claims to have signed, and the bytes behind the key id."""

    name: str
    keyid: bytes
    blob: bytes

    def line(self) -> bytes:
        """The line with its line feed."""
        return f"{_DASH}{self.name} ".encode() + wire.base64_encode(self.keyid + self.blob) + b"\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A signed note; `text` ends in a line feed and is what plain signatures cover."""

    text: bytes
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        """The exact bytes of the note."""
        return self.text + b"\n" + b"".join(signature.line() for signature in self.signatures)

    def by(self, key: VerifierKey) -> list[Signature]:
        """The lines that name `key`."""
        keyid = key.keyid
        return [one for one in self.signatures if one.keyid == keyid and one.name == key.name]

    def with_signatures(self, more: Sequence[Signature]) -> Note:
        """The same note with further lines."""
        return Note(self.text, (*self.signatures, *more))


def parse(raw: bytes, reason: str = "checkpoint-form") -> Note:
    """Split a note; raises `VerificationError` with `reason` for anything but one exact spelling."""
    if len(raw) > LIMIT_BYTES:
        raise VerificationError("too-large", f"a signed note of {len(raw)} bytes")
    try:
        whole = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise VerificationError(reason, "a signed note that is not UTF-8") from None
    text, empty_line, tail = whole.rpartition("\n\n")
    lines = tail.split("\n")
    if not empty_line or not text or lines.pop() or not lines or _CONTROL.search(whole):
        raise VerificationError(reason, "a signed note is text, an empty line and signature lines")
    if len(lines) > MAX_SIGNATURES:
        raise VerificationError(reason, f"a signed note with {len(lines)} signatures")
    return Note((text + "\n").encode(), tuple(_signature(line, reason) for line in lines))


def _signature(line: str, reason: str) -> Signature:
    name, space, text = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space or not is_name(name) or not text.isascii():
        raise VerificationError(reason, "a signature line that is not dash, key name and base64")
    blob = wire.base64_decode(text.encode(), reason)
    if len(blob) <= KEY_ID_BYTES:
        raise VerificationError(reason, f"the signature of {name} is empty")
    return Signature(name, blob[:KEY_ID_BYTES], blob[KEY_ID_BYTES:])
