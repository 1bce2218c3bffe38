"""Exact numbers and the one rounding rule (requirements G-1, G-2, G-5).

Counts, money, shares and thresholds are `Fraction`; text is parsed strictly and a binary float is never
accepted. Rounding is decimal, half away from zero, applied once to the exact value, at display only.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from scoring.errors import MalformedInputError

NANO_PER_USD: Final = 10**9
POINTS: Final = 100
"""A Pack Score is shown on 0..100 (S3-6)."""
DASH: Final = "—"
"""What a missing figure looks like (G-5, UI-2)."""

_DECIMAL: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_RATIO: Final = re.compile(r"-?[0-9]{1,40}/[0-9]{1,40}", re.ASCII)


def exact(value: object) -> Fraction:
    """The exact value of an int, a `Fraction`, or text like `3`, `0.10`, `-2/3`.

    Refused with `MalformedInputError("number")`: floats (also integral ones), booleans, NaN, infinities,
    exponents, signs other than one leading minus, white space, a zero denominator.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value):
            return Fraction(value)
        if _RATIO.fullmatch(value) and int(value.partition("/")[2]) != 0:
            return Fraction(value)
    raise MalformedInputError("number", f"{value!r:.60} is not an exact number")


def fixed(value: Fraction, decimals: int) -> str:
    """`value` with `decimals` places, rounded half away from zero ("four down, five up"); never `-0`."""
    if decimals < 0:
        raise MalformedInputError("decimals", f"{decimals} decimal places")
    scaled = abs(value) * 10**decimals
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    if 2 * rest >= scaled.denominator:
        whole += 1
    digits = str(whole).rjust(decimals + 1, "0")
    text = digits if decimals == 0 else f"{digits[:-decimals]}.{digits[-decimals:]}"
    return f"-{text}" if value < 0 and whole else text


def ratio(value: Fraction) -> str:
    """The exact value as a reduced `n/d` (the denominator is printed also when it is 1)."""
    return f"{value.numerator}/{value.denominator}"


def points(share: Fraction) -> Fraction:
    """A share 0..1 on the scale of 0..100 points, exactly."""
    return share * POINTS


def usd(nano_usd: int | Fraction) -> Fraction:
    """Nano-USD as exact USD."""
    return Fraction(nano_usd) / NANO_PER_USD


def show_points(value: Fraction | None) -> str:
    """Points with one decimal (UI-5), or the dash."""
    return DASH if value is None else fixed(value, 1)


def show_usd(value: Fraction | None) -> str:
    """USD with four decimals (UI-5), or the dash: unknown is never shown as $0 (S3-35)."""
    return DASH if value is None else f"${fixed(value, 4)}"
