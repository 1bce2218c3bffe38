"""The strict DSSE profile of certificates.md 3.3.

An envelope has exactly one spelling: canonical JSON of `payload`, `payloadType` and one to four
signatures, key ids unique and ascending, standard base64. That language is regular, so an expression
recognises it and no JSON parser sees bytes that nobody signed. Every such envelope is plain DSSE.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

STATEMENT_TYPE: Final = "application/vnd.in-toto+json"
TRUST_ROOT_TYPE: Final = "application/vnd.assize.trust-root.v1+json"
MAX_SIGNATURES: Final = 4

_ONE: Final = rb'\{"keyid":"[0-9a-f]{32}","sig":"[A-Za-z0-9+/]{86}=="\}'
_HEAD: Final = b'{"payload":"'
_REST: Final = re.compile(
    rb'","payloadType":"([a-z0-9.+/-]{1,127})","signatures":'
    rb"\[(" + _ONE + rb"(?:," + _ONE + rb"){0,3})\]\}"
)
_SIGNATURE: Final = re.compile(rb'"keyid":"([0-9a-f]{32})","sig":"([A-Za-z0-9+/=]{88})"')


@dataclass(frozen=True, slots=True)
class Envelope:
    """A well-formed envelope; nothing in it is trusted yet. `signatures` are (key id, 64 bytes)."""

    payload: bytes
    payload_type: str
    signatures: tuple[tuple[str, bytes], ...]

    def signed_bytes(self) -> bytes:
        """The bytes that every signature covers."""
        return pae(self.payload_type, self.payload)


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE pre-authentication encoding: what is really signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def statement_digest(signed_bytes: bytes) -> str:
    """How statements name each other: hex SHA-256 of the PAE bytes, independent of who signed."""
    return hashlib.sha256(signed_bytes).hexdigest()


def encode(payload: bytes, payload_type: str, signatures: Sequence[tuple[str, bytes]]) -> bytes:
    """The one spelling of an envelope."""
    parts = b",".join(
        b'{"keyid":"%b","sig":"%b"}' % (keyid.encode(), wire.base64_encode(signature))
        for keyid, signature in sorted(signatures)
    )
    return b'{"payload":"%b","payloadType":"%b","signatures":[%b]}' % (
        wire.base64_encode(payload),
        payload_type.encode(),
        parts,
    )


def decode(raw: bytes, payload_type: str, limit_bytes: int) -> Envelope:
    """Parse an envelope of `payload_type` whose payload has at most `limit_bytes`.

    Raises `VerificationError` with `too-large`, `form` or `payload-type`; the size is checked first.
    """
    if len(raw) > limit_bytes * 4 // 3 + 1024:
        raise VerificationError("too-large", f"an envelope of {len(raw)} bytes")
    # The payload is most of it and ends at the first quote; the expression looks at the rest.
    end = raw.find(b'"', len(_HEAD))
    match = _REST.fullmatch(raw, end) if end > 0 and raw.startswith(_HEAD) else None
    if match is None:
        raise VerificationError("form", "an envelope that is not in its one strict form")
    kind = match[1].decode()
    if kind != payload_type:
        raise VerificationError("payload-type", f"payload type {kind}, expected {payload_type}")
    payload = wire.base64_decode(raw[len(_HEAD) : end])
    found = _SIGNATURE.findall(match[2])
    signatures = tuple([(keyid.decode(), wire.base64_decode(text)) for keyid, text in found])
    if len(found) > 1 and (ids := [keyid for keyid, _ in found]) != sorted(set(ids)):
        raise VerificationError("form", "key ids are not unique and in ascending order")
    return Envelope(payload, kind, signatures)
