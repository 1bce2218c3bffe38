"""What a call cost, and the most that a call admitted now could cost. Whole nano-USD, rounded up once.

A call's price is the sum of tokens x rate over its buckets, divided by a million and rounded up, plus
the fees of provider-run tool calls. Everything is exact integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.entry import MAX_TOKENS, ModelPrice, Rates
from orchestrator.prices.errors import NoPrice, UnpricedError

PER_MILLION: Final = 10**6
LOOK_AHEAD_MINUTES: Final = 60
"""A call admitted now may be priced at a time of day up to this much later."""


@dataclass(frozen=True)
class Costs:
    """One call, nano-USD: `list` by tier and time of day, `standard` by the base rates alone."""

    list_nusd: int
    standard_nusd: int


@dataclass(frozen=True)
class Hold:
    """The most a call can cost, nano-USD; `input_rate` names the bucket whose rate its input is held at."""

    nusd: int
    input_rate: str


def cost(price: ModelPrice, used: Buckets, at: datetime) -> Costs:
    """Both prices of a call made at the aware time `at`.

    `UnpricedError` when the call used a bucket or a kind of tool call that has no price here.
    """
    fees = _fees(price, used.calls)
    return Costs(
        list_nusd=_total(price, _list_rates(price, used.input_total, at), used) + fees,
        standard_nusd=_total(price, price.standard, used) + fees,
    )


def hold(
    price: ModelPrice,
    *,
    input_tokens: int,
    cache_ttls: frozenset[str],
    output_tokens: int,
    calls: Mapping[str, int],
    at: datetime,
    audio: bool = False,
) -> Hold:
    """The most that a call admitted at `at` can cost, with at most these tokens and tool calls.

    All input counts at the dearest rate that could apply: plain, cache write for each lifetime asked for
    (`5m`, `1h`), audio if the call may carry audio; over every tier that the input can reach and every
    time of day in the next hour. `output_tokens` is for all choices together. `UnpricedError` as `cost`.
    """
    fees = _fees(price, calls)
    found = []
    for rates in _reachable(price, input_tokens, at):
        bucket, input_rate = _dearest_input(rates, cache_ttls, audio=audio)
        inputs = _priced(price, input_tokens, input_rate, bucket)
        outputs = _priced(price, output_tokens, _output_rate(rates, audio=audio), "output")
        found.append(Hold(_rounded_up(inputs + outputs) + fees, bucket))
    return max(found, key=lambda one: one.nusd)


def affordable_output(
    price: ModelPrice,
    *,
    budget_nusd: int,
    input_tokens: int,
    cache_ttls: frozenset[str],
    choices: int,
    calls: Mapping[str, int],
    at: datetime,
    audio: bool = False,
) -> int:
    """The largest number of output tokens for each of `choices` whose hold fits; 0 if none does.

    Never above `max_output_tokens` of the model. The exact inverse of `hold`.
    """
    limit = MAX_TOKENS if price.max_output_tokens is None else price.max_output_tokens
    left = (budget_nusd - _fees(price, calls)) * PER_MILLION
    for rates in _reachable(price, input_tokens, at):
        bucket, input_rate = _dearest_input(rates, cache_ttls, audio=audio)
        spare = left - _priced(price, input_tokens, input_rate, bucket)
        output_rate = _output_rate(rates, audio=audio)
        if spare < 0 or output_rate is None:
            return 0
        if output_rate:
            limit = min(limit, spare // (choices * output_rate))
    return limit


def _rounded_up(nusd_millionths: int) -> int:
    return -(-nusd_millionths // PER_MILLION)


def _priced(price: ModelPrice, tokens: int, rate: int | None, bucket: str) -> int:
    if not tokens:
        return 0
    if rate is None:
        raise UnpricedError(
            f"{price.label} has no {bucket} price from {price.valid_from} on",
            NoPrice.MISSING_DIMENSION,
            hint="the call cannot be priced; add the rate to the sheet or forbid such calls",
        )
    return tokens * rate


def _total(price: ModelPrice, rates: Rates, used: Buckets) -> int:
    return _rounded_up(
        sum(
            _priced(price, tokens, rates.of(bucket), bucket)
            for bucket, tokens in used.tokens().items()
            if tokens
        )
    )


def _fees(price: ModelPrice, calls: Mapping[str, int]) -> int:
    return sum(
        _priced(price, count, price.per_call.get(kind), f"{kind} call") for kind, count in calls.items()
    )


def _list_rates(price: ModelPrice, input_total: int, at: datetime) -> Rates:
    for window in price.windows:
        if window.holds(at):
            return window.rates
    reached = [tier.rates for tier in price.tiers if input_total > tier.above_input_tokens]
    return reached[-1] if reached else price.standard


def _reachable(price: ModelPrice, input_tokens: int, at: datetime) -> list[Rates]:
    """Every set of rates that a call with at most this much input may be priced by within the hour."""
    if price.windows:
        moments = (at + timedelta(minutes=minute) for minute in range(LOOK_AHEAD_MINUTES + 1))
        return list(dict.fromkeys(_list_rates(price, input_tokens, moment) for moment in moments))
    tiers = [tier.rates for tier in price.tiers if input_tokens > tier.above_input_tokens]
    return [price.standard, *tiers]


def _dearest_input(rates: Rates, cache_ttls: frozenset[str], *, audio: bool) -> tuple[str, int | None]:
    if audio and rates.audio_input is None:
        return "audio_input", None
    buckets = ["input", *(f"cache_write_{ttl}" for ttl in sorted(cache_ttls))]
    if audio:
        buckets.append("audio_input")
    rated = [(bucket, rate) for bucket in buckets if (rate := rates.of(bucket)) is not None]
    return max(rated, key=lambda one: one[1]) if rated else ("input", None)


def _output_rate(rates: Rates, *, audio: bool) -> int | None:
    if audio and rates.audio_output is not None:
        return max(rates.audio_output, rates.output or 0)
    return rates.output
