"""The most a call can cost: never below what it then costs, and invertible exactly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.cost import affordable_output, cost, hold
from orchestrator.prices.entry import ModelPrice, Rates, Tier, Window
from orchestrator.prices.errors import NoPrice, UnpricedError

PriceOf = Callable[..., ModelPrice]
START = datetime(2026, 1, 1, tzinfo=UTC)
NO_TTL: frozenset[str] = frozenset()
BOTH = frozenset({"5m", "1h"})
CACHED = {
    "input": 3_000_000,
    "output": 15_000_000,
    "cache_read": 300_000,
    "cache_write_5m": 3_750_000,
    "cache_write_1h": 6_000_000,
}


def held(price: ModelPrice, at: datetime, **change: Any) -> Any:
    """A hold of 100 tokens in, 10 out, without anything special, but for `change`."""
    plain = {"input_tokens": 100, "cache_ttls": NO_TTL, "output_tokens": 10, "calls": {}}
    return hold(price, at=at, **{**plain, **change})


@pytest.mark.parametrize(
    ("ttls", "bucket", "rate"),
    [
        (NO_TTL, "input", 3),
        (frozenset({"5m"}), "cache_write_5m", 3.75),
        (frozenset({"1h"}), "cache_write_1h", 6),
        (BOTH, "cache_write_1h", 6),
    ],
)
def test_input_is_held_at_the_write_rate_asked_for(
    ttls: frozenset[str], bucket: str, rate: float, price_of: PriceOf, noon: datetime
) -> None:
    """The dearest of plain input and each lifetime in the request; the hold names which."""
    found = held(price_of(standard=CACHED), noon, cache_ttls=ttls)
    assert (found.nusd, found.input_rate) == (100 * rate + 150, bucket)


def test_without_a_write_rate_input_is_held_at_the_plain_rate(price_of: PriceOf, noon: datetime) -> None:
    """Providers whose writes cost nothing extra."""
    found = held(price_of(standard={"input": 1_000_000, "output": 1_000_000}), noon, cache_ttls=BOTH)
    assert (found.nusd, found.input_rate) == (110, "input")


def test_tiers_count_from_the_bound_of_the_input(price_of: PriceOf, noon: datetime) -> None:
    """Strictly above the limit of a tier its rates are held, for output as well."""
    price = price_of(
        standard={"input": 1_000_000, "output": 1_000_000},
        tiers=[{"above_input_tokens": 100, "rates": {"input": 2_000_000, "output": 3_000_000}}],
    )
    assert held(price, noon).nusd == 110
    assert held(price, noon, input_tokens=101).nusd == 202 + 30


def test_a_cheaper_tier_does_not_lower_the_hold(price_of: PriceOf, noon: datetime) -> None:
    """The bound may be far above the input that is then counted, so every tier below it can apply."""
    price = price_of(
        standard={"input": 2_000_000, "output": 2_000_000},
        tiers=[{"above_input_tokens": 50, "rates": {"input": 1_000_000, "output": 1_000_000}}],
    )
    assert held(price, noon).nusd == 220


@pytest.mark.parametrize(
    ("clock", "expected"),
    [((0, 59), 110), ((1, 0), 220), ((1, 59), 220), ((2, 0), 220), ((4, 59), 220), ((5, 0), 110)],
)
def test_the_dearest_time_of_the_next_hour_is_held(
    clock: tuple[int, int], expected: int, price_of: PriceOf
) -> None:
    """A call admitted an hour before the dear hours may be priced by them; a minute earlier not."""
    price = price_of(
        standard={"input": 1_000_000, "output": 1_000_000},
        windows=[
            {"start": "02:00", "end": "05:00", "rates": {"input": 2_000_000, "output": 2_000_000}},
        ],
    )
    assert held(price, datetime(2026, 11, 30, *clock, tzinfo=UTC)).nusd == expected


def test_audio_is_held_at_its_own_rate_or_refused(price_of: PriceOf, noon: datetime) -> None:
    """A call that may carry sound never starts where sound has no price."""
    price = price_of(
        standard={
            "input": 1_000_000,
            "output": 1_000_000,
            "audio_input": 40_000_000,
            "audio_output": 80_000_000,
        }
    )
    found = held(price, noon, audio=True)
    assert (found.nusd, found.input_rate) == (100 * 40 + 10 * 80, "audio_input")
    with pytest.raises(UnpricedError) as refused:
        held(price_of(), noon, audio=True)
    assert refused.value.reason is NoPrice.MISSING_DIMENSION


def test_tool_calls_are_held_at_their_fees(price_of: PriceOf, noon: datetime) -> None:
    """Every allowed use; a kind without a fee is refused before the call."""
    price = price_of(per_call={"web_search": 10_000_000}, standard={"input": 1_000_000, "output": 1_000_000})
    assert held(price, noon, calls={"web_search": 8}).nusd == 80_000_110
    with pytest.raises(UnpricedError, match="code_execution call"):
        held(price, noon, calls={"code_execution": 1})
    with pytest.raises(UnpricedError, match="code_execution call"):
        affordable_output(
            price,
            budget_nusd=10**12,
            input_tokens=1,
            cache_ttls=NO_TTL,
            choices=1,
            calls={"code_execution": 1},
            at=noon,
        )


def test_an_embedding_holds_its_input_only(price_of: PriceOf, noon: datetime) -> None:
    """No output price: no output can be held or bought, none is needed."""
    price = price_of(standard={"input": 20_000_000}, max_output_tokens=0)
    assert held(price, noon, output_tokens=0).nusd == 2000
    with pytest.raises(UnpricedError, match="no output price"):
        held(price, noon)
    assert bought(price, noon, 10**9) == 0


def bought(price: ModelPrice, at: datetime, budget_nusd: int, choices: int = 1) -> int:
    """What a budget buys after 100 tokens of input."""
    return affordable_output(
        price,
        budget_nusd=budget_nusd,
        input_tokens=100,
        cache_ttls=NO_TTL,
        choices=choices,
        calls={},
        at=at,
    )


def test_nothing_is_affordable_where_the_input_does_not_fit(price_of: PriceOf, noon: datetime) -> None:
    """A cap of zero means zero; so does a budget one nano-USD short."""
    price = price_of(standard={"input": 1_000_000, "output": 10_000_000})
    assert [bought(price, noon, budget) for budget in (-1, 0, 99, 100, 109, 110, 119, 120)] == [
        *([0] * 5),
        1,
        1,
        2,
    ]
    assert bought(price, noon, 160, choices=3) == 2


def test_the_maximum_of_the_model_limits_what_is_bought(price_of: PriceOf, noon: datetime) -> None:
    """Also where output is free."""
    rates = {"input": 1_000_000, "output": 1_000_000}
    assert bought(price_of(standard=rates, max_output_tokens=64), noon, 10**9) == 64
    assert bought(price_of(standard={**rates, "output": 0}, max_output_tokens=64), noon, 100) == 64
    assert bought(price_of(standard={**rates, "output": 0}), noon, 100) == 2**31 - 1


rates = st.integers(0, 50_000_000_000)
small = st.integers(0, 300_000)


@st.composite
def prices(draw: st.DrawFn) -> ModelPrice:
    """Prices with tiers, or with times of day, or with neither; any rates."""

    def drawn() -> Rates:
        found = {bucket: draw(rates) for bucket in Rates.model_fields}
        # A cached read never costs more than plain input; the hold relies on it.
        found["cache_read"] = min(found["cache_read"], found["input"])
        return Rates(**found)

    kind = draw(st.sampled_from(["flat", "tiers", "windows"]))
    starts = sorted(draw(st.sets(small, min_size=1, max_size=3))) if kind == "tiers" else []
    clocks = sorted(draw(st.sets(st.integers(0, 1439), min_size=2, max_size=4))) if kind == "windows" else []
    pairs = list(zip(clocks[::2], clocks[1::2], strict=False))
    return ModelPrice(
        provider="p",
        ids=("m",),
        valid_from=START.date(),
        standard=drawn(),
        tiers=tuple(Tier(above_input_tokens=start, rates=drawn()) for start in starts),
        windows=tuple(
            Window(start=f"{a // 60:02}:{a % 60:02}", end=f"{b // 60:02}:{b % 60:02}", rates=drawn())
            for a, b in pairs
        ),
        per_call={"web_search": draw(st.integers(0, 10**8))},
        max_output_tokens=draw(st.none() | st.integers(0, 200_000)),
        source="fictional",
        retrieved=START.date(),
    )


moments = st.integers(0, 365 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds))


@given(
    price=prices(),
    at=moments,
    minutes=st.integers(0, 60),
    tokens=st.fixed_dictionaries(dict.fromkeys(Rates.model_fields, small)),
    searches=st.integers(0, 8),
    slack=small,
)
def test_a_hold_covers_whatever_the_call_then_costs(
    price: ModelPrice,
    at: datetime,
    minutes: int,
    tokens: dict[str, int],
    searches: int,
    slack: int,
) -> None:
    """Any split over the buckets, any smaller use, any minute of the hour: the list price is covered."""
    used = Buckets(calls={"web_search": searches}, **tokens)
    found = hold(
        price,
        input_tokens=used.input_total + slack,
        cache_ttls=BOTH,
        output_tokens=used.output + used.audio_output,
        calls={"web_search": searches},
        at=at,
        audio=True,
    )
    got = cost(price, used, at + timedelta(minutes=minutes))
    assert got.list_nusd <= found.nusd


@given(
    price=prices(),
    at=moments,
    budget=st.integers(-1, 10**11),
    tokens=small,
    choices=st.integers(1, 8),
    searches=st.integers(0, 3),
    ttls=st.sampled_from([NO_TTL, frozenset({"5m"}), BOTH]),
    audio=st.booleans(),
)
def test_affordable_output_is_the_exact_inverse_of_the_hold(
    price: ModelPrice,
    at: datetime,
    budget: int,
    tokens: int,
    choices: int,
    searches: int,
    ttls: frozenset[str],
    audio: bool,
) -> None:
    """What is bought fits, one more token for each choice does not, unless the model's maximum is reached."""
    calls = {"web_search": searches}

    def price_with(each: int) -> int:
        return hold(
            price,
            input_tokens=tokens,
            cache_ttls=ttls,
            output_tokens=each * choices,
            calls=calls,
            at=at,
            audio=audio,
        ).nusd

    most = affordable_output(
        price,
        budget_nusd=budget,
        input_tokens=tokens,
        cache_ttls=ttls,
        choices=choices,
        calls=calls,
        at=at,
        audio=audio,
    )
    limit = 2**31 - 1 if price.max_output_tokens is None else price.max_output_tokens
    assert 0 <= most <= limit
    if most:
        assert price_with(most) <= budget
    if most < limit:
        assert price_with(most + 1) > budget
