"""Small strict checkers for parsed JSON, composed once into tables and cheap to run.

A shape is a function of (value, unknown) that raises `VerificationError` when the value does not fit and
appends unknown field names to `unknown` (fields added by a later minor version are ignored and listed).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from orchestrator.canonical import MAX_INTEGER
from orchestrator.certificates.errors import VerificationError

Shape = Callable[[Any, list[str]], None]

ID: Final = r"[a-z0-9][a-z0-9._:@/+_-]{0,127}"
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._:@/+_-]{0,127}"
ULID: Final = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
HEX_64: Final = r"[0-9a-f]{64}"
KEY_ID: Final = r"[0-9a-f]{32}"
BASE64_KEY: Final = r"[A-Za-z0-9+/]{43}="
JUDGE: Final = rf"programmatic|{NAME}@\d{{4}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
DATE: Final = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
UTC: Final = DATE + r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ"
DECIMAL: Final = r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?"


def text(pattern: str, reason: str = "schema") -> Shape:
    """A string that the ASCII expression matches in full."""
    match = re.compile(pattern, re.ASCII).fullmatch

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not str or match(value) is None:
            raise VerificationError(reason, f" has the value {value!r:.80}")

    return check


def words(*allowed: str, reason: str = "schema") -> Shape:
    """One of the given strings."""
    known = frozenset(allowed)

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not str or value not in known:
            raise VerificationError(reason, f" has the value {value!r:.80}")

    return check


def integer(least: int = 0, most: int = MAX_INTEGER) -> Shape:
    """An integer (never a boolean) within the bounds."""

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not int or not least <= value <= most:
            raise VerificationError("schema", f" has the value {value!r:.80}")

    return check


def boolean(value: Any, unknown: list[str]) -> None:
    """True or false."""
    if value.__class__ is not bool:
        raise VerificationError("schema", " is not a boolean")


def null(value: Any, unknown: list[str]) -> None:
    """Nothing else than null."""
    if value is not None:
        raise VerificationError("schema", " is not null")


def nullable(inner: Shape) -> Shape:
    """Null, or what `inner` accepts."""

    def check(value: Any, unknown: list[str]) -> None:
        if value is not None:
            inner(value, unknown)

    return check


def many(inner: Shape, most: int, least: int = 0) -> Shape:
    """A list of `least` to `most` items that each fit `inner`."""

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not list or not least <= len(value) <= most:
            raise VerificationError("schema", f" is not a list of {least} to {most} items")
        for item in value:
            inner(item, unknown)

    return check


def record(fields: Mapping[str, Shape], *, closed: bool = False) -> Shape:
    """An object with at least these fields; unknown ones are listed, or refused when `closed`."""
    items = tuple(fields.items())
    count = len(items)
    known: Collection[str] = frozenset(fields)

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not dict:
            raise VerificationError("schema", " is not an object")
        name = ""
        try:
            for name, shape in items:
                shape(value[name], unknown)
        except KeyError:
            raise VerificationError("schema", f"{name} is missing") from None
        except VerificationError as error:
            raise error.within(name) from None
        if len(value) != count:
            extra = sorted(value.keys() - known)
            if closed:
                raise VerificationError("schema", f"{extra[0]} is not a known field")
            unknown.extend(extra)

    return check


_is_hex_64: Final = re.compile(HEX_64).fullmatch


def digest(value: Any, unknown: list[str]) -> None:
    """A digest set with exactly one SHA-256."""
    if value.__class__ is dict and len(value) == 1:
        sha256 = value.get("sha256")
        if sha256.__class__ is str and _is_hex_64(sha256):
            return
    raise VerificationError("schema", " is not one SHA-256 digest")
