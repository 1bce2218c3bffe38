"""Limits as people write them."""

import re
from dataclasses import dataclass

UNIT_SECONDS = {"s": 1, "min": 60, "h": 3600, "day": 86400}
PATTERN = re.compile(r"\s*([0-9]+)\s*/\s*([0-9]+)?\s*(s|min|h|day)(?:\s+burst\s+([0-9]+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Limit:
    """`count` events in `seconds`, at most `burst` at once."""

    count: int
    seconds: int
    burst: int


def parse_limit(text):
    """Parse `COUNT/UNIT [burst N]`; raises ValueError."""
    match = PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"not a limit: {text!r}")
    count, times, unit, burst = match.groups()
    seconds = UNIT_SECONDS[unit.lower()] * int(times or 1)
    limit = Limit(int(count), seconds, int(burst or count))
    if limit.count < 1 or limit.seconds < 1 or limit.burst < 1:
        raise ValueError(f"numbers must be at least 1: {text!r}")
    return limit
