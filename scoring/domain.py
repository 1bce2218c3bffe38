"""Domain checks shared by the methodologies: out of range is refused with a code, never coerced."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring.errors import MalformedInputError

TOP: Final = Fraction(100)
"""The top of every 0..100 scale."""


def count(name: str, value: object, least: int = 0) -> int:
    """`value` if it is an int (never a bool or a float) of at least `least`; else code `number`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not a whole number from {least} on")
    return value


def mark(name: str, value: object) -> Fraction:
    """`value` if it is a `Fraction` 0..100; else code `number` (another type) or `range`."""
    if not isinstance(value, Fraction):
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not an exact number")
    if not 0 <= value <= TOP:
        raise MalformedInputError("range", f"{name} is {value}, outside 0..100")
    return value


def share(name: str, value: object) -> Fraction:
    """`value` if it is a `Fraction` 0..1; else code `number` (another type) or `range`."""
    if not isinstance(value, Fraction):
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not an exact number")
    if not 0 <= value <= 1:
        raise MalformedInputError("range", f"{name} is {value}, outside 0..1")
    return value


def not_negative(name: str, value: object) -> Fraction:
    """`value` if it is a `Fraction` of at least 0; else code `number` (another type) or `range`."""
    if not isinstance(value, Fraction):
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not an exact number")
    if value < 0:
        raise MalformedInputError("range", f"{name} is negative: {value}")
    return value


def pair(name: str, passed: object, total: object) -> None:
    """Two counts with 0 <= passed <= total; else code `number` or `pass-count`."""
    if count(f"{name} passed", passed) > count(f"{name} total", total):
        raise MalformedInputError("pass-count", f"{name}: {passed} passed of {total}")
