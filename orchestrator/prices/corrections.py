"""What the source of `assize prices import` is known to have wrong or to leave unsaid, reviewed by hand.

Each table says why. A row that no table can mend is left out by the importer, which says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Dropped:
    """One rate that is left out of the period of a model that ends on `until`, and why."""

    until: date
    bucket: str
    why: str


DROPPED: Final[Mapping[tuple[str, str], Dropped]] = MappingProxyType(
    {
        ("openai", "o3"): Dropped(
            until=date(2025, 6, 10),
            bucket="cache_read",
            why="the source repeats the cached rate of the later, cheaper period",
        ),
    }
)

KNOWN_SINCE: Final[Mapping[tuple[str, str], date]] = MappingProxyType(
    {
        # The date of its only snapshot, o3-2025-04-16.
        ("openai", "o3"): date(2025, 4, 16),
        # Days on which the first price was checked against a second source (reference/relay.md section 4).
        ("anthropic", "claude-opus-4-6"): date(2026, 2, 20),
        ("openai", "gpt-5.6-sol"): date(2026, 7, 15),
        # The comment of the source gives the release day, and one price since then.
        ("deepseek", "deepseek-flash"): date(2026, 9, 10),
    }
)
"""First day of a price whose row has no start in the source."""

DISCOUNTED_UNTIMED: Final = frozenset({("deepseek", "deepseek-chat"), ("deepseek", "deepseek-reasoner")})
"""Models whose un-timed row is a discount of the night and whose timed row is the standard price.

The source says so in its comment on the provider; standard prices know no such discounts (seed 001).
"""
