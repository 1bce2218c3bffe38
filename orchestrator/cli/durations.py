"""Durations on the command line: `90s`, `30m`, `6h`, `2d`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

MOST_MS: Final = 366 * 86_400_000
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT: Final = re.compile(r"([0-9]{1,9})([smhd])")


class Duration(click.ParamType[int]):
    """A whole number of seconds, minutes, hours or days, at most a year."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds; a usage error for anything else."""
        if isinstance(value, int):
            return value
        found = _TEXT.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration: a number with s, m, h or d, for example 6h", param, ctx)
        wanted_ms = int(found[1]) * _UNITS_MS[found[2]]
        if wanted_ms > MOST_MS:
            self.fail(f"{value!r} is longer than a year", param, ctx)
        return wanted_ms
