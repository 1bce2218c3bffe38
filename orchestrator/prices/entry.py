"""One entry of a price sheet: what one model of one provider costs in one range of days.

Rates are whole nano-USD per million tokens: 0.0375 USD per million tokens is 37,500,000, which is no
whole number per token.
"""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MAX_RATE: Final = 10**15
MAX_TOKENS: Final = 2**31 - 1
_DAY_MINUTES: Final = 24 * 60

Rate = Annotated[int, Field(ge=0, le=MAX_RATE)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("the text has to be printable, without white space around it")
    return text


class Rates(_Model):
    """Nano-USD per million tokens by bucket; None means that tokens of this bucket have no price here."""

    input: Rate | None = None
    output: Rate | None = None
    cache_read: Rate | None = None
    cache_write_5m: Rate | None = None
    cache_write_1h: Rate | None = None
    audio_input: Rate | None = None
    audio_output: Rate | None = None

    def of(self, bucket: str) -> int | None:
        """The rate of a bucket of `Buckets` by its name."""
        rate: int | None = getattr(self, bucket)
        return rate

    def priced(self) -> frozenset[str]:
        """Names of the buckets that have a rate."""
        return frozenset(name for name in type(self).model_fields if self.of(name) is not None)


class Tier(_Model):
    """Rates of the whole call when all its input tokens together are more than `above_input_tokens`."""

    above_input_tokens: Tokens
    rates: Rates


class Window(_Model):
    """Rates from `start` to before `end` of every day, UTC; an end before the start is on the next day."""

    start: Clock
    end: Clock
    rates: Rates

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.start == self.end:
            raise ValueError(f"the window {self.start}-{self.end} is empty")
        return self

    def minutes(self) -> frozenset[int]:
        """Minutes of the day inside the window."""
        start, end = _minute(self.start), _minute(self.end)
        return frozenset(range(start, end) if start < end else [*range(start, _DAY_MINUTES), *range(end)])

    def holds(self, at: datetime) -> bool:
        """Whether the window is open at `at`, an aware time."""
        clock = at.astimezone(UTC)
        minute, start, end = clock.hour * 60 + clock.minute, _minute(self.start), _minute(self.end)
        return start <= minute < end if start < end else minute >= start or minute < end


def _minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


class ModelPrice(_Model):
    """What one model costs from `valid_from` to before `valid_to` (None: until further notice), UTC days.

    `ids` are matched exactly. `standard` is the price without long-context tiers and times of day;
    `per_call` holds fees in nano-USD for one provider-run tool call, by kind (`web_search`).
    """

    provider: Name
    ids: Annotated[tuple[Name, ...], Field(min_length=1)]
    valid_from: date
    valid_to: date | None = None
    standard: Rates
    tiers: tuple[Tier, ...] = ()
    windows: tuple[Window, ...] = ()
    per_call: dict[Name, Rate] = Field(default_factory=dict)
    max_output_tokens: Tokens | None = None
    source: Annotated[str, Field(min_length=1, max_length=2000)]
    retrieved: date
    reviewed: bool = False

    @field_validator("provider", "source")
    @classmethod
    def _text(cls, text: str) -> str:
        return _printable(text)

    @field_validator("ids")
    @classmethod
    def _distinct(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        for one in ids:
            _printable(one)
        if len(set(ids)) != len(ids):
            raise ValueError("an id is named twice")
        return ids

    @field_validator("per_call")
    @classmethod
    def _kinds(cls, per_call: dict[str, int]) -> dict[str, int]:
        bad = [kind for kind in per_call if not kind.isascii() or not kind.isprintable()]
        if bad:
            raise ValueError(f"the kind {bad[0]!r} is not printable ASCII")
        return per_call

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problem = self._problem()
        if problem is not None:
            raise ValueError(f"{self.provider} {self.ids[0]}: {problem}")
        return self

    def _problem(self) -> str | None:
        if self.valid_to is not None and self.valid_to <= self.valid_from:
            return f"valid_to {self.valid_to} is not after valid_from {self.valid_from}"
        if not self.standard.priced():
            return "no bucket has a rate"
        if self.tiers and self.windows:
            return "an entry has tiers or windows, not both"
        starts = [tier.above_input_tokens for tier in self.tiers]
        if any(later <= earlier for earlier, later in itertools.pairwise(starts)):
            return "the tiers are not in ascending order of above_input_tokens"
        others = [*(tier.rates for tier in self.tiers), *(window.rates for window in self.windows)]
        if any(rates.priced() != self.standard.priced() for rates in others):
            return "a tier or window prices other buckets than the standard rates do"
        minutes = [minute for window in self.windows for minute in window.minutes()]
        if len(set(minutes)) != len(minutes):
            return "two windows overlap"
        return None

    @property
    def label(self) -> str:
        """`provider first-id`, for messages."""
        return f"{self.provider} {self.ids[0]}"

    def valid_on(self, day: date) -> bool:
        """Whether the entry holds on this UTC day."""
        return self.valid_from <= day and (self.valid_to is None or day < self.valid_to)

    def overlaps(self, other: ModelPrice) -> bool:
        """Whether the two entries hold on a day in common."""
        return (other.valid_to is None or self.valid_from < other.valid_to) and (
            self.valid_to is None or other.valid_from < self.valid_to
        )
