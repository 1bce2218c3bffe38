"""One canonical JSON form and one strict parser, used by everything that is hashed or signed.

The profile is RFC 8785 restricted to ASCII keys and integers within +-(2**53 - 1), for which the
standard library's compact sorted dump is byte-identical (reference/certificates.md section 2).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from orchestrator.errors import UsageError

MAX_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64


class CanonicalFormError(UsageError):
    """A value or a document is outside the canonical profile."""

    code = "canonical-form"


def check(value: object, depth: int = 0) -> None:
    """Raise `CanonicalFormError` unless `value` is within the profile (no floats, ASCII keys)."""
    if depth > MAX_DEPTH:
        raise CanonicalFormError(f"nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise CanonicalFormError("a string holds a lone surrogate") from None
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise CanonicalFormError("an integer is beyond 2**53 - 1")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise CanonicalFormError("an object key is not an ASCII string")
            # Most values of what we sign are ASCII strings: these need no call of their own.
            if item.__class__ is not str or depth >= MAX_DEPTH or not item.isascii():
                check(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check(item, depth + 1)
    else:
        raise CanonicalFormError(f"a {type(value).__name__} has no canonical form")


def encode(value: object) -> bytes:
    """Canonical UTF-8 bytes of `value`; raises `CanonicalFormError` outside the profile."""
    check(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def digest(value: object) -> str:
    """SHA-256 of the canonical bytes, 64 lower-case hex characters."""
    return hashlib.sha256(encode(value)).hexdigest()


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise CanonicalFormError("an object repeats a key")
    return out


def _refuse_number(text: str) -> Any:
    raise CanonicalFormError(f"the number {text[:40]} is not an integer")


def _parse_int(text: str) -> int:
    if len(text) > 17:
        raise CanonicalFormError("an integer is beyond 2**53 - 1")
    return int(text)


def decode_strict(raw: bytes) -> Any:
    """Parse canonical bytes; anything that does not re-encode to itself is refused.

    Refuses duplicate keys, floats, NaN, byte order marks, invalid UTF-8, lone surrogates, white space
    and deep nesting, always with `CanonicalFormError`.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
            parse_int=_parse_int,
        )
        again = encode(value)
    except CanonicalFormError:
        raise
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CanonicalFormError(f"not canonical JSON: {type(error).__name__}") from None
    if again != raw:
        raise CanonicalFormError("not in canonical form")
    return value
