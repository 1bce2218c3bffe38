"""Rows of the genai-prices package in our units: exact ids, rates, tiers, fees, periods.

Conversions are exact. What our sheet cannot say raises `InexpressibleError`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from datetime import time as clock_time
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from orchestrator.prices.entry import Rates, Tier, Window
from orchestrator.prices.errors import PriceError

if TYPE_CHECKING:  # imported where used: the package is optional and takes half a second
    from genai_prices import types as source_types

BUCKETS: Final[Mapping[str, str]] = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    # Writes without a named lifetime are those of the shortest one that the provider sells.
    "cache_write_mtok": "cache_write_5m",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input",
    "output_audio_mtok": "audio_output",
}
FEES: Final[Mapping[str, str]] = {
    "web_searches_kcount": "web_search",
    "storage_searches_kcount": "file_search",
}
CACHED_AUDIO: Final = "cache_audio_read_mtok"
_NUSD: Final = 10**9
_PER_THOUSAND: Final = 1000


class InexpressibleError(PriceError):
    """The source has a price that our sheet cannot say; the message is the reason."""

    code = "prices-inexpressible"


@dataclass(frozen=True)
class Priced:
    """One price of the source: base rates, tiers, fees; `note` names what of it was left out."""

    standard: Rates
    tiers: tuple[Tier, ...]
    per_call: Mapping[str, int]
    note: str | None


@dataclass(frozen=True)
class Period:
    """Days with one base price; `start` is None where the source does not say since when."""

    start: date | None
    end: date | None
    price: source_types.ModelPrice
    timed: tuple[tuple[clock_time, clock_time, source_types.ModelPrice], ...] = field(default=())


def exact_ids(model: source_types.ModelInfo) -> tuple[str, ...]:
    """The ids that the source names in full, the model's own first; prefixes and patterns give none."""
    own = [model.id] if model.is_match(model.id) else []
    return tuple(dict.fromkeys([*own, *_named(model.match)]))


def _named(clause: object) -> Iterable[str]:
    from genai_prices.types import ClauseEquals, ClauseOr

    if isinstance(clause, ClauseEquals):
        yield clause.equals
    elif isinstance(clause, ClauseOr):
        for inner in clause.or_:
            yield from _named(inner)


def whole(usd: Decimal, per: int = 1) -> int:
    """USD as nano-USD divided by `per`, exactly; `InexpressibleError` when that is no whole number."""
    nusd = usd * _NUSD / per
    if nusd != nusd.to_integral_value():
        raise InexpressibleError(f"{usd} USD is no whole number of nano-USD")
    return int(nusd)


def priced(price: source_types.ModelPrice) -> Priced:
    """One price row in our units, for calls that carry text."""
    values = {key: value for key, value in vars(price).items() if value is not None}
    note = None
    if CACHED_AUDIO in values:
        # Our buckets do not tell cached audio from other cached input: no audio at all, then.
        values = {key: value for key, value in values.items() if "audio" not in key}
        note = "calls with audio are not priced: cached audio has a rate of its own"
    unknown = sorted(values.keys() - BUCKETS.keys() - FEES.keys())
    if unknown:
        raise InexpressibleError(f"has a price for {', '.join(unknown)}")
    rates = {BUCKETS[key]: value for key, value in values.items() if key in BUCKETS}
    starts = sorted({tier.start for value in rates.values() for tier in getattr(value, "tiers", ())})
    tiers = tuple(Tier(above_input_tokens=start, rates=_rates(rates, start)) for start in starts)
    fees = {FEES[key]: whole(value, _PER_THOUSAND) for key, value in values.items() if key in FEES}
    return Priced(_rates(rates, None), tiers, fees, note)


def _rates(values: Mapping[str, Decimal | source_types.TieredPrices], above: int | None) -> Rates:
    """Rates of a call whose input is just above `above` tokens, or below every tier."""
    return Rates(**{bucket: whole(_at(value, above)) for bucket, value in values.items()})


def _at(value: Decimal | source_types.TieredPrices, above: int | None) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if above is not None and tier.start <= above]
    return reached[-1] if reached else value.base


def periods(model: source_types.ModelInfo) -> list[Period]:
    """Periods of a model in order of time; times of day belong to the last one."""
    from genai_prices.types import ConditionalPrice, StartDateConstraint, TimeOfDateConstraint

    rows = model.prices if isinstance(model.prices, list) else [ConditionalPrice(prices=model.prices)]
    bases: list[tuple[date | None, source_types.ModelPrice]] = []
    timed = []
    for row in rows:
        if isinstance(row.constraint, StartDateConstraint):
            bases.append((row.constraint.start_date, row.prices))
        elif isinstance(row.constraint, TimeOfDateConstraint):
            timed.append((_utc(row.constraint.start_time), _utc(row.constraint.end_time), row.prices))
        else:
            bases.append((None, row.prices))
    starts = [start for start, _ in bases]
    known = [start for start in starts if start is not None]
    if starts.count(None) > 1 or None in starts[1:] or known != sorted(set(known)):
        raise InexpressibleError("its rows are not one price after another")
    ends = [*starts[1:], None]
    found = [Period(start, end, price) for (start, price), end in zip(bases, ends, strict=True)]
    last = found[-1]
    return [*found[:-1], Period(last.start, last.end, last.price, tuple(timed))]


def _utc(value: clock_time) -> clock_time:
    if value.second or value.microsecond:
        raise InexpressibleError("a time of day is not a whole minute")
    if value.tzinfo is None:
        return value
    return datetime.combine(date(2000, 1, 1), value).astimezone(UTC).time()


def windows(period: Period, base: Priced) -> tuple[Window, ...]:
    """The daily windows of a period in our units; `base` is its un-timed price."""
    found = []
    for start, end, price in period.timed:
        inside = priced(price)
        if inside.tiers or base.tiers or inside.per_call != base.per_call:
            raise InexpressibleError("has tiers or fees that depend on the time of day")
        found.append(Window(start=f"{start:%H:%M}", end=f"{end:%H:%M}", rates=inside.standard))
    return tuple(found)
