"""Strict JSON and base64 for the verification path.

`parse` accepts exactly what `orchestrator.canonical.decode_strict` accepts (a property test compares the
two) in half the time: equality of the re-encoded bytes already excludes duplicate keys, white space and
escapes, so only numbers need a hook. Verification has a budget of three raw signature checks per
certificate, which the plain walk over every value would spend on its own.
"""

from __future__ import annotations

import binascii
import json
from typing import Any, Final

from orchestrator import canonical
from orchestrator.verification.errors import VerificationError


def _refuse(text: str) -> Any:
    raise ValueError(f"the number {text[:40]} is not an integer")


def _integer(text: str) -> int:
    if len(text) > 17:
        raise ValueError("an integer is beyond 2**53 - 1")
    value = int(text)
    if not -canonical.MAX_INTEGER <= value <= canonical.MAX_INTEGER:
        raise ValueError("an integer is beyond 2**53 - 1")
    return value


_DECODER: Final = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse, parse_int=_integer)
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse(raw: bytes, reason: str = "form") -> Any:
    """The value of canonical JSON bytes; raises `VerificationError` with `reason` for anything else."""
    try:
        value = _DECODER.decode(raw.decode("utf-8"))
        again = _ENCODER.encode(value).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise VerificationError(reason, f"not canonical JSON ({type(error).__name__})") from None
    if again != raw:
        raise VerificationError(reason, "JSON that is not in canonical form")
    if not raw.isascii() or raw.count(b"{") + raw.count(b"[") > canonical.MAX_DEPTH:
        try:
            canonical.check(value)
        except canonical.CanonicalFormError as error:
            raise VerificationError(reason, error.message) from None
    return value


def base64_decode(text: bytes, reason: str = "form") -> bytes:
    """Bytes of standard padded base64 that re-encodes to itself.

    Strict decoding refuses foreign characters and misplaced padding; what it lets pass are unused bits in
    the last group, so only that group is encoded again (a test compares with encoding everything).
    """
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise VerificationError(reason, "not base64") from None
    whole, rest = divmod(len(data), 3)
    # Without padding there are no unused bits.
    has_odd_bits = rest > 0 and binascii.b2a_base64(data[-rest:], newline=False) != text[-4:]
    if len(text) != (whole + (rest > 0)) * 4 or has_odd_bits:
        raise VerificationError(reason, "base64 that is not in its one standard form")
    return data


def base64_encode(data: bytes) -> bytes:
    """Standard padded base64 without line breaks."""
    return binascii.b2a_base64(data, newline=False)
