"""Small strict checkers for parsed JSON, composed once into tables.

A shape has two faces made from the same table. `check` is a function of (value, unknown): it raises
`VerificationError` when the value does not fit and appends unknown field names to `unknown` (fields of a
later minor version are ignored and listed). `spelling` is a regular expression for canonical JSON bytes
of fitting values: what it matches in full needs no further check, and what it does not match (an unknown
field, an escape, a very large number) is left to `check`. A test holds the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.canonical import MAX_INTEGER
from orchestrator.verification.errors import VerificationError

ID: Final = r"[a-z0-9][a-z0-9._:@/+_-]{0,127}"
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._:@/+_-]{0,127}"
ULID: Final = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
HEX_64: Final = r"[0-9a-f]{64}"
KEY_ID: Final = r"[0-9a-f]{32}"
BASE64_KEY: Final = r"[A-Za-z0-9+/]{43}="
DATE: Final = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
UTC: Final = DATE + r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
JUDGE: Final = rf"(?:programmatic|{NAME}@{DATE})"
DECIMAL: Final = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?"

Checker = Callable[[Any, list[str]], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """One checker and the spelling of what it accepts."""

    check: Checker
    spelling: str


def text(pattern: str, reason: str = "schema", *, unescaped: str | None = None) -> Shape:
    """A string that the expression matches in full.

    `unescaped` is a narrower expression without quotes, backslashes and non-ASCII; needed only where
    `pattern` allows those.
    """
    match = re.compile(pattern).fullmatch

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not str or match(value) is None:
            raise VerificationError(reason, f" has the value {value!r:.80}")

    return Shape(check, f'"{unescaped or pattern}"')


def words(*allowed: str, reason: str = "schema") -> Shape:
    """One of the given strings."""
    known = frozenset(allowed)

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not str or value not in known:
            raise VerificationError(reason, f" has the value {value!r:.80}")

    return Shape(check, f'"(?:{"|".join(re.escape(word) for word in allowed)})"')


def integer(least: int = 0, most: int = MAX_INTEGER) -> Shape:
    """An integer (never a boolean) within the bounds; `least` is 0 or 1."""

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not int or not least <= value <= most:
            raise VerificationError("schema", f" has the value {value!r:.80}")

    # As many digits as are within the bounds whatever they are; the largest values go to `check`.
    digits = len(str(most)) - 2
    positive = f"[1-9][0-9]{{0,{digits}}}" if digits >= 0 else "[1-9]" if most == 9 else "(?!)"
    return Shape(check, positive if least else f"(?:0|{positive})")


def many(inner: Shape, most: int, least: int = 0) -> Shape:
    """A list of `least` to `most` items that each fit `inner`."""
    check_item = inner.check

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not list or not least <= len(value) <= most:
            raise VerificationError("schema", f" is not a list of {least} to {most} items")
        for item in value:
            check_item(item, unknown)

    if most == 0:
        return Shape(check, r"\[\]")
    filled = rf"{inner.spelling}(?:,{inner.spelling}){{{max(least - 1, 0)},{most - 1}}}"
    return Shape(check, rf"\[{filled}\]" if least else rf"\[(?:{filled})?\]")


def nullable(inner: Shape) -> Shape:
    """Null, or what `inner` accepts."""
    check_inner = inner.check

    def check(value: Any, unknown: list[str]) -> None:
        if value is not None:
            check_inner(value, unknown)

    return Shape(check, f"(?:null|{inner.spelling})")


def record(
    fields: Mapping[str, Shape], *, closed: bool = False, optional: Mapping[str, Shape] | None = None
) -> Shape:
    """An object with at least these fields; unknown ones are listed, or refused when `closed`.

    `optional` fields may be absent: they were added after the first statements were signed. The last field
    by name is never one of them.
    """
    later = dict(optional or {})
    items = tuple((name, shape.check) for name, shape in fields.items())
    count, known = len(items), frozenset(fields) | frozenset(later)

    def check(value: Any, unknown: list[str]) -> None:
        if value.__class__ is not dict:
            raise VerificationError("schema", " is not an object")
        name = ""
        try:
            for name, check_field in items:
                check_field(value[name], unknown)
        except KeyError:
            raise VerificationError("schema", f"{name} is missing") from None
        except VerificationError as error:
            raise error.within(name) from None
        if len(value) != count:
            for name in later.keys() & value.keys():
                try:
                    later[name].check(value[name], unknown)
                except VerificationError as error:
                    raise error.within(name) from None
            extra = sorted(value.keys() - known)
            if closed and extra:
                raise VerificationError("schema", f"{extra[0]} is not a known field")
            unknown.extend(extra)

    every = {**fields, **later}
    *names, last = sorted(every)
    spelled = {name: f'"{re.escape(name)}":{every[name].spelling}' for name in every}
    parts = [f"(?:{spelled[name]},)?" if name in later else f"{spelled[name]}," for name in names]
    return Shape(check, rf"\{{{''.join(parts)}{spelled[last]}\}}")


def either(one: Shape, other: Shape, mark: str) -> Shape:
    """`other` for an object that has the field `mark`, else `one`."""
    check_one, check_other = one.check, other.check

    def check(value: Any, unknown: list[str]) -> None:
        (check_other if isinstance(value, dict) and mark in value else check_one)(value, unknown)

    return Shape(check, f"(?:{one.spelling}|{other.spelling})")


def _boolean(value: Any, unknown: list[str]) -> None:
    if value.__class__ is not bool:
        raise VerificationError("schema", " is not a boolean")


def _null(value: Any, unknown: list[str]) -> None:
    if value is not None:
        raise VerificationError("schema", " is not null")


_is_hex_64: Final = re.compile(HEX_64).fullmatch


def _digest(value: Any, unknown: list[str]) -> None:
    if value.__class__ is dict and len(value) == 1:
        sha256 = value.get("sha256")
        if sha256.__class__ is str and _is_hex_64(sha256):
            return
    raise VerificationError("schema", " is not one SHA-256 digest")


BOOLEAN: Final = Shape(_boolean, "(?:true|false)")
NULL: Final = Shape(_null, "null")
DIGEST: Final = Shape(_digest, rf'\{{"sha256":"{HEX_64}"\}}')
"""A digest set with exactly one SHA-256."""


class Recogniser:
    """Called: true for canonical bytes of which nothing more needs to be checked.

    Its expression takes tens of milliseconds to make, as long as checking hundreds of documents the plain
    way; so it is made at the first call, and `pays_off` says from when on to call it.
    """

    def __init__(self, shape: Shape, after: int = 8) -> None:
        self._spelling, self._left = shape.spelling.encode("ascii"), after
        self._match: Callable[[bytes], object] | None = None

    def pays_off(self) -> bool:
        """Whether enough documents were asked about before this one."""
        self._left -= self._left > 0
        return self._left == 0

    def __call__(self, raw: bytes) -> object:
        if self._match is None:
            self._match = re.compile(self._spelling).fullmatch
        return self._match(raw)
