"""The digest of any exact input: SHA-256 over one canonical ASCII JSON text, floats refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from scoring.errors import MalformedInputError
from scoring.numbers import ratio


def digest(value: object) -> str:
    """SHA-256 hex of `plain(value)` as compact JSON with sorted keys."""
    text = json.dumps(plain(value), separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def plain(value: object) -> Any:
    """Strings, integers, booleans, None, lists and objects; fractions are `n/d`, sets are sorted.

    Raises `MalformedInputError("not-digestible")` for anything else, floats included.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Fraction):
        return ratio(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((plain(item) for item in value), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise MalformedInputError("not-digestible", f"a {type(value).__name__} has no canonical form")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise MalformedInputError("not-digestible", f"a key is a {type(key).__name__}")
    return key.value if isinstance(key, Enum) else key
