"""What a call cost: exact integers, one rounding, tiers, times of day, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from types import ModuleType
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.cost import Costs, cost
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.errors import NoPrice, UnpricedError

PriceOf = Callable[..., ModelPrice]
NIGHT = {"start": "16:30", "end": "00:30", "rates": {"input": 1_000_000, "output": 2_000_000}}
DAY = {"input": 10_000_000, "output": 20_000_000}


@pytest.mark.parametrize("name", ["relay.json", "agents.json"])
def test_the_golden_costs_of_the_case_files(
    name: str, cases: Callable[[str], dict[str, Any]], case_prices: ModuleType, noon: datetime
) -> None:
    """Every case with buckets costs what the case file says, by both prices."""
    found = cases(name)
    sheet = case_prices.sheet_of_cases(found["prices_nusd_per_token"])
    priced = 0
    for case in found["cases"]:
        expected = case["expect"]
        if not expected.get("buckets"):
            continue
        provider = found["prices_nusd_per_token"][case["model"]]["provider"]
        price = sheet.entry(provider, case["model"], noon.date())
        got = cost(price, Buckets(**expected["buckets"]), noon)
        assert got == Costs(expected["cost_list_on_date_nusd"], expected["cost_standard_nusd"]), case["id"]
        priced += 1
    assert priced >= 10


def test_the_sum_is_rounded_up_once(price_of: PriceOf, noon: datetime) -> None:
    """Three buckets of a third each are one nano-USD, not three; a millionth more is another one."""
    price = price_of(standard={"input": 333_333, "output": 333_333, "cache_read": 333_334})
    assert cost(price, Buckets(input=1, output=1, cache_read=1), noon) == Costs(1, 1)
    assert cost(price, Buckets(input=1, output=1, cache_read=2), noon) == Costs(2, 2)
    assert cost(price, Buckets(), noon) == Costs(0, 0)


def test_a_rate_that_is_no_whole_number_per_token(price_of: PriceOf, noon: datetime) -> None:
    """0.0375 USD per million tokens: 37.5 nano-USD a token."""
    price = price_of(standard={"input": 37_500_000, "output": 1})
    assert cost(price, Buckets(input=1000), noon).list_nusd == 37_500
    assert cost(price, Buckets(input=1001), noon).list_nusd == 37_538


def test_a_tier_is_for_the_whole_call_and_strictly_above(price_of: PriceOf, noon: datetime) -> None:
    """All input counts towards a tier; at its limit the tier below holds; standard knows no tiers."""
    rates = {"input": 1_000_000, "output": 1_000_000, "cache_read": 1_000_000}
    tiers = [
        {"above_input_tokens": 100, "rates": dict.fromkeys(rates, 2_000_000)},
        {"above_input_tokens": 200, "rates": dict.fromkeys(rates, 5_000_000)},
    ]
    price = price_of(standard=rates, tiers=tiers)
    assert cost(price, Buckets(input=60, cache_read=40, output=10), noon) == Costs(110, 110)
    assert cost(price, Buckets(input=60, cache_read=41, output=10), noon) == Costs(222, 111)
    assert cost(price, Buckets(input=201), noon) == Costs(1005, 201)


@pytest.mark.parametrize("bucket", ["cache_write_5m", "cache_write_1h", "audio_input"])
def test_every_kind_of_input_counts_towards_a_tier(bucket: str, price_of: PriceOf, noon: datetime) -> None:
    """Written and audio input as well."""
    rates = {"output": 0, bucket: 1_000_000}
    price = price_of(
        standard=rates, tiers=[{"above_input_tokens": 1, "rates": dict.fromkeys(rates, 3_000_000)}]
    )
    assert cost(price, Buckets(calls={}, **{bucket: 2}), noon) == Costs(6, 2)


@pytest.mark.parametrize(
    ("clock", "per_token"),
    [((16, 29), 10), ((16, 30), 1), ((23, 59), 1), ((0, 0), 1), ((0, 29), 1), ((0, 30), 10)],
)
def test_a_window_over_midnight(clock: tuple[int, int], per_token: int, price_of: PriceOf) -> None:
    """Its start belongs to it, its end does not; standard ignores the time of day."""
    price = price_of(standard=DAY, windows=[NIGHT])
    at = datetime(2026, 11, 30, *clock, 59, tzinfo=UTC)
    assert cost(price, Buckets(input=7), at) == Costs(7 * per_token, 70)


def test_a_time_of_day_is_that_of_utc(price_of: PriceOf) -> None:
    """A call at noon in a zone five hours ahead is made at seven."""
    price = price_of(standard=DAY, windows=[{**NIGHT, "start": "07:00", "end": "08:00"}])
    at = datetime(2026, 11, 30, 12, 30, tzinfo=timezone(timedelta(hours=5)))
    assert cost(price, Buckets(input=7), at).list_nusd == 7


def test_fees_of_tool_calls_are_in_both_prices(price_of: PriceOf, noon: datetime) -> None:
    """Per call, on top of the tokens."""
    price = price_of(per_call={"web_search": 10_000_000})
    used = Buckets(input=1, calls={"web_search": 3})
    assert cost(price, used, noon) == Costs(30_003_000, 30_003_000)


@pytest.mark.parametrize(
    "used",
    [
        Buckets(cache_read=1),
        Buckets(cache_write_5m=1),
        Buckets(cache_write_1h=1),
        Buckets(audio_input=1),
        Buckets(audio_output=1),
        Buckets(calls={"web_search": 1}),
    ],
    ids=lambda used: next((name for name, count in used.tokens().items() if count), "call"),
)
def test_what_has_no_price_is_refused_by_name(used: Buckets, price_of: PriceOf, noon: datetime) -> None:
    """Cached tokens without a cached price are not priced as others, nor as nothing."""
    with pytest.raises(UnpricedError) as refused:
        cost(price_of(), used, noon)
    assert refused.value.reason is NoPrice.MISSING_DIMENSION
    name = next((name for name, count in used.tokens().items() if count), "web_search call")
    assert name in refused.value.message


def test_a_dimension_that_was_not_used_is_not_missed(price_of: PriceOf, noon: datetime) -> None:
    """Zero tokens and zero calls need no price; a price of zero is a price."""
    price = price_of(standard={"input": 20_000_000, "output": 0})
    assert cost(price, Buckets(input=5, output=9, calls={"web_search": 0}), noon) == Costs(100, 100)


def test_large_calls_stay_exact(price_of: PriceOf, noon: datetime) -> None:
    """Beyond what a float could hold."""
    price = price_of(standard={"input": 10**15 - 1, "output": 1})
    exact = (10**9 + 7) * (10**15 - 1) + 1
    whole, rest = divmod(exact, 10**6)
    assert rest > 0
    assert cost(price, Buckets(input=10**9 + 7, output=1), noon).list_nusd == whole + 1


def test_buckets_priced_on_a_day_of_the_sheet(price_of: PriceOf) -> None:
    """Days are inclusive at the start and exclusive at the end."""
    price = price_of(valid_to="2026-02-01")
    assert price.valid_on(date(2026, 1, 1)) and price.valid_on(date(2026, 1, 31))
    assert not price.valid_on(date(2025, 12, 31)) and not price.valid_on(date(2026, 2, 1))


def test_every_bucket_is_told_and_added() -> None:
    """A bucket that one of the two forgets would be counted and not billed, or billed and not counted."""
    names = [item.name for item in fields(Buckets) if item.name != "calls"]
    counts = {name: 3**number for number, name in enumerate(names)}
    used = Buckets(**counts, calls={"web_search": 2})
    assert used.tokens() == counts
    assert (used + used).tokens() == {name: 2 * count for name, count in counts.items()}
    assert (used + Buckets(calls={"web_search": 1, "other": 4})).calls == {"web_search": 3, "other": 4}
