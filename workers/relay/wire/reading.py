"""What an answer says it used, and how far that is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.errors import WireError

MOST_TOKENS: Final = 10**12
"""A count above this is a broken counter, and would not fit the ledger's integers once priced."""

_NAME_CHARACTERS: Final = 100


class Completeness(StrEnum):
    """How the usage of a call is known; anything but exact keeps the hold and makes its cost n/a."""

    EXACT = "exact"
    BOUNDED = "bounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reading:
    """The usage of one answer.

    `buckets` is None when nothing believable was seen; for a bounded reading it is what was seen so far.
    `flags` say why a reading is not exact, in machine words. `finish` and `served_model` are the provider's
    words. `provider_fault`: the provider failed inside a 200 or reported what cannot be true. `ended`: the
    family's own end of an answer was seen.
    """

    completeness: Completeness
    buckets: Buckets | None
    flags: tuple[str, ...]
    finish: str | None
    served_model: str | None
    provider_fault: bool
    ended: bool


@dataclass(frozen=True)
class Counted:
    """Arithmetically sound usage; with `doubts` it is a bound only, because the rates are not known."""

    buckets: Buckets
    doubts: tuple[str, ...]


class NotBelievedError(WireError):
    """Usage that cannot be true; `flag` says what is wrong with it."""

    def __init__(self, flag: str) -> None:
        super().__init__(f"usage not believed: {flag}")
        self.flag = flag


def count(holder: Mapping[str, Any], name: str) -> int | None:
    """A token count, None when absent or null; raises `NotBelievedError` for what is no count."""
    value = holder.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise NotBelievedError("bad_count")
    return value


def needed(holder: Mapping[str, Any], name: str) -> int:
    """A token count that must be there."""
    value = count(holder, name)
    if value is None:
        raise NotBelievedError("missing_count")
    return value


def section(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A group of details, empty when absent or null."""
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotBelievedError("bad_count")
    return value


def name_of(value: Any) -> str | None:
    """A provider's word, shortened to 100 characters; None when it is not a non-empty string."""
    return value[:_NAME_CHARACTERS] if isinstance(value, str) and value else None


def tier_doubts(values: tuple[Any, ...], list_price: frozenset[str]) -> tuple[str, ...]:
    """A flag for every service tier or region that was answered and is not billed at the list price."""
    told = [value for value in values if value is not None]
    return tuple(
        f"tier:{name_of(value) or '?'}"
        for value in told
        if not (isinstance(value, str) and value.lower() in list_price)
    )
