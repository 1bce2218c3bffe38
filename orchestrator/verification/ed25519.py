"""Which Ed25519 public keys and signatures are acceptable beyond what OpenSSL checks.

OpenSSL accepts small-order keys: with the identity point as public key one constant signature verifies
every message (certificates.md section 0, decision 5). A usable key encodes a canonical y and is none of
the eight points of small order; the same test is applied to R of every signature.
"""

from __future__ import annotations

import hashlib
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.verification.errors import VerificationError

ALGORITHM: Final = "ed25519"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P
_SIGN_BIT: Final = 1 << 255
_Y_ORDER_8: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
# y of the points of order 1, 2, 4 and 8; the sign of x does not matter, both signs are of small order.
_SMALL_ORDER_Y: Final = frozenset({0, 1, _P - 1, _Y_ORDER_8, _P - _Y_ORDER_8})


def is_sound_point(encoded: bytes) -> bool:
    """True when 32 bytes encode a canonical y that is not of a small-order point."""
    y = int.from_bytes(encoded, "little")
    if y >= _SIGN_BIT:
        y -= _SIGN_BIT
    return y < _P and y not in _SMALL_ORDER_Y


def _is_on_curve(y: int) -> bool:
    """Whether an x exists for y: (y^2 - 1) / (d y^2 + 1) is a square."""
    ratio = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return pow(ratio, (_P - 1) // 2, _P) in (0, 1)


def key_id(raw: bytes) -> str:
    """First 32 hex characters of SHA-256(algorithm || LF || raw key)."""
    return hashlib.sha256(ALGORITHM.encode() + b"\n" + raw).hexdigest()[:32]


def public_key(raw: bytes) -> Ed25519PublicKey:
    """A checked public key; raises `VerificationError` (`trust-root`) for one that must not be trusted."""
    if len(raw) != KEY_BYTES or not is_sound_point(raw):
        raise VerificationError("trust-root", "a public key is not canonical or of small order")
    # OpenSSL takes any 32 bytes here and only fails later, at each signature.
    if not _is_on_curve(int.from_bytes(raw, "little") % _SIGN_BIT):
        raise VerificationError("trust-root", "a public key is not a point of the curve")
    return Ed25519PublicKey.from_public_bytes(raw)


def verifies(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    """Whether `signature` (64 bytes) is a sound signature of `message` under the checked `key`."""
    if len(signature) != SIGNATURE_BYTES or not is_sound_point(signature[:KEY_BYTES]):
        return False
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
