"""USD on the command line, exact: decimal text in, whole nano-USD out."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from orchestrator.canonical import MAX_INTEGER

NUSD_PER_USD: Final = 1_000_000_000
_AMOUNT: Final = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,9}))?")


class Usd(click.ParamType[int]):
    """An amount in USD with at most nine decimals; 0 is an amount."""

    name = "USD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nano-USD; a usage error for anything else than a plain, non-negative decimal."""
        if isinstance(value, int):
            return value
        found = _AMOUNT.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no amount of USD with at most nine decimals", param, ctx)
        nusd = int(found[1]) * NUSD_PER_USD + int((found[2] or "").ljust(9, "0"))
        if nusd > MAX_INTEGER:
            self.fail(f"{value!r} is no amount of USD that can be counted here", param, ctx)
        return nusd


def usd_text(nusd: int) -> str:
    """Nano-USD as USD with as many decimals as it needs, at least two: 1500000000 is `1.50`."""
    whole, rest = divmod(nusd, NUSD_PER_USD)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{whole}.{decimals}"
