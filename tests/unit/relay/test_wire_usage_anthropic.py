"""Usage of Anthropic Messages: additive cache, running totals, lifetimes, cuts, errors inside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness, Reading, meter_for

EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN
NO_TTL: frozenset[str] = frozenset()


def whole(usage: Any, ttls: frozenset[str] = NO_TTL, **more: Any) -> Reading:
    meter = meter_for(Family.ANTHROPIC, sse=False, provider="anthropic", cache_ttls=ttls)
    content = [{"type": "text", "text": "ok"}]
    answer = {"type": "message", "model": "m", "content": content, "stop_reason": "end_turn", "usage": usage}
    meter.feed(json.dumps({**answer, **more}).encode())
    return meter.finish(clean=True)


def stream(*events: dict[str, Any], clean: bool = True, named: bool = True) -> Reading:
    meter = meter_for(Family.ANTHROPIC, sse=True, provider="anthropic", cache_ttls=NO_TTL)
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        meter.feed(f"{name}data: {json.dumps(event)}\n\n".encode())
    return meter.finish(clean=clean)


def start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}}


def end(stop: str | None = "end_turn", usage: Any = None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}


WORD = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
STOP = {"type": "message_stop"}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
SHORT = {"ephemeral_5m_input_tokens": 99}
CACHE = {"cache_creation_input_tokens": 100, "cache_read_input_tokens": 50}


def test_the_cache_is_beside_the_input() -> None:
    """Nothing is subtracted; the split of the writes is used."""
    split = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}
    found = whole({"input_tokens": 3, "output_tokens": 9, **CACHE, "cache_creation": split})
    expected = Buckets(input=3, cache_read=50, cache_write_5m=30, cache_write_1h=70, output=9)
    assert (found.completeness, found.buckets, found.finish) == (EXACT, expected, "end_turn")
    assert (found.served_model, found.ended, found.provider_fault) == ("m", True, False)


@pytest.mark.parametrize(
    ("ttls", "five", "one", "completeness"),
    [
        (NO_TTL, 100, 0, EXACT),
        (frozenset({"5m"}), 100, 0, EXACT),
        (frozenset({"1h"}), 0, 100, EXACT),
        (frozenset({"5m", "1h"}), 0, 100, BOUNDED),
    ],
)
def test_writes_without_a_split_go_by_the_request(
    ttls: frozenset[str], five: int, one: int, completeness: Completeness
) -> None:
    """A mixture leaves the rate open: the dearer one, as a bound."""
    found = whole({"input_tokens": 3, "output_tokens": 9, **CACHE}, ttls)
    expected = Buckets(input=3, cache_read=50, cache_write_5m=five, cache_write_1h=one, output=9)
    assert (found.completeness, found.buckets) == (completeness, expected)


def test_mixed_lifetimes_without_writes_are_exact() -> None:
    """There is nothing to split."""
    found = whole({"input_tokens": 3, "output_tokens": 9}, frozenset({"5m", "1h"}))
    assert (found.completeness, found.buckets) == (EXACT, Buckets(input=3, output=9))


@pytest.mark.parametrize(
    ("usage", "flag"),
    [
        ({"input_tokens": 3, "output_tokens": 9, **CACHE, "cache_creation": SHORT}, "cache_split_mismatch"),
        ({"input_tokens": 3}, "missing_count"),
        ({"output_tokens": 3}, "missing_count"),
        ({"input_tokens": 3, "output_tokens": -9}, "bad_count"),
        ({"input_tokens": True, "output_tokens": 9}, "bad_count"),
        ({"input_tokens": 3, "output_tokens": 9, "cache_creation": 5}, "bad_count"),
        ({"input_tokens": 3, "output_tokens": 9, "server_tool_use": {"x_requests": "2"}}, "bad_count"),
        ({"input_tokens": 0, "output_tokens": 0}, "zero_usage"),
    ],
)
def test_usage_that_cannot_be_true_is_not_believed(usage: dict[str, Any], flag: str) -> None:
    """Unknown, and the provider's fault."""
    found = whole(usage)
    assert (found.completeness, found.buckets, found.flags) == (UNKNOWN, None, (flag,))
    assert found.provider_fault


def test_provider_run_calls_are_counted_by_kind() -> None:
    """Searches and fetches; kinds that were not used are left out."""
    used = {"web_search_requests": 2, "web_fetch_requests": 1, "code_execution_requests": 0}
    found = whole({"input_tokens": 3, "output_tokens": 9, "server_tool_use": used})
    assert found.completeness is EXACT
    assert found.buckets == Buckets(input=3, output=9, calls={"web_search": 2, "web_fetch": 1})


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("service_tier", "priority", "tier:priority"),
        ("inference_geo", "us", "tier:us"),
        ("speed", "fast", "tier:fast"),
        ("service_tier", ["x"], "tier:?"),
        ("iterations", [{"type": "message"}, {"type": "compaction"}], "hidden_rounds"),
        ("iterations", [5], "hidden_rounds"),
    ],
)
def test_another_rate_than_the_list_price_is_a_bound(field: str, value: Any, flag: str) -> None:
    """Tiers, regions and speeds; also rounds that are billed outside the sums."""
    found = whole({"input_tokens": 3, "output_tokens": 9, field: value})
    assert (found.completeness, found.flags) == (BOUNDED, (flag,))
    assert found.buckets == Buckets(input=3, output=9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("service_tier", "standard"),
        ("inference_geo", "global"),
        ("inference_geo", "not_available"),
        ("inference_geo", None),
        ("speed", "standard"),
        ("iterations", [{"type": "message"}]),
    ],
)
def test_the_list_price_is_exact(field: str, value: Any) -> None:
    """What a plain answer carries."""
    assert whole({"input_tokens": 3, "output_tokens": 9, field: value}).completeness is EXACT


def test_reports_of_a_stream_are_running_totals() -> None:
    """15 output tokens, not 16; the last of several deltas wins, per field."""
    found = stream(start(input_tokens=25, output_tokens=1), WORD, end(usage={"output_tokens": 15}), STOP)
    assert (found.completeness, found.buckets) == (EXACT, Buckets(input=25, output=15))
    several = stream(
        start(input_tokens=25, output_tokens=1),
        end(None, {"input_tokens": 90, "output_tokens": 8}),
        end("end_turn", {"input_tokens": 140, "cache_read_input_tokens": None, "output_tokens": 20}),
        STOP,
    )
    assert (several.completeness, several.buckets) == (EXACT, Buckets(input=140, output=20))


def test_a_later_sum_of_writes_outdates_the_split() -> None:
    """The delta tells the sum only, so that the request's lifetimes decide; an equal sum keeps the split."""
    split = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}
    first = start(input_tokens=3, output_tokens=1, cache_creation=split, cache_creation_input_tokens=100)
    grown = stream(first, end(usage={"cache_creation_input_tokens": 120, "output_tokens": 9}))
    assert grown.buckets == Buckets(input=3, cache_write_5m=120, output=9)
    same = stream(first, end(usage={"cache_creation_input_tokens": 100, "output_tokens": 9}))
    assert same.buckets == Buckets(input=3, cache_write_5m=30, cache_write_1h=70, output=9)


@pytest.mark.parametrize("named", [True, False])
def test_the_delta_with_a_stop_reason_is_final(named: bool) -> None:
    """A break after it loses nothing; before it, the usage of the start is a bound."""
    events = [start(input_tokens=25, output_tokens=1), WORD, end(usage={"output_tokens": 15})]
    cut = stream(*events, clean=False, named=named)
    assert (cut.completeness, cut.ended, cut.provider_fault) == (EXACT, True, False)
    early = stream(*events[:2], clean=False, named=named)
    assert (early.completeness, early.buckets) == (BOUNDED, Buckets(input=25, output=1))
    assert (early.ended, early.provider_fault) == (False, True)
    assert stream(WORD, clean=False, named=named).completeness is UNKNOWN


def test_the_start_s_output_count_is_never_exact() -> None:
    """An end without usage of its own leaves the count of the first token."""
    found = stream(start(input_tokens=25, output_tokens=1), WORD, end(), STOP)
    assert (found.completeness, found.ended, found.provider_fault) == (BOUNDED, True, False)


def test_a_stream_that_just_stops_is_the_provider_s_fault() -> None:
    """Even when the HTTP body ends properly."""
    found = stream(start(input_tokens=25, output_tokens=1), WORD)
    assert (found.completeness, found.provider_fault, found.ended) == (BOUNDED, True, False)


def test_an_error_inside_a_stream() -> None:
    """Unknown without usage, a bound with some, exact when usage was final already."""
    opened, closed = start(input_tokens=25, output_tokens=1), end(usage={"output_tokens": 15})
    bare, before = stream(ERROR), stream(opened, WORD, ERROR)
    after, final = stream(opened, ERROR, closed, STOP), stream(opened, closed, ERROR)
    found = [reading.completeness for reading in (bare, before, after, final)]
    assert found == [UNKNOWN, BOUNDED, BOUNDED, EXACT]
    assert all(reading.provider_fault for reading in (bare, before, after, final))


def test_an_error_as_a_json_200() -> None:
    """Nothing is known of it."""
    meter = meter_for(Family.ANTHROPIC, sse=False, provider="anthropic", cache_ttls=NO_TTL)
    meter.feed(json.dumps(ERROR).encode())
    found = meter.finish(clean=True)
    assert (found.completeness, found.provider_fault) == (UNKNOWN, True)


def test_words_of_the_model_are_not_usage() -> None:
    """A delta that prints the name of the field is parsed for nothing."""
    word = {"type": "content_block_delta", "delta": {"text": '"usage":{"output_tokens":999}'}}
    found = stream(start(input_tokens=25, output_tokens=1), word, end(usage={"output_tokens": 15}), STOP)
    assert found.buckets == Buckets(input=25, output=15)
