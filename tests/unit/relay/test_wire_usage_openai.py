"""Usage of chat completions and embeddings: subsets, the deciding total, last reports, cuts, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.family import Family
from workers.relay.wire.sse import Event, SseParser
from workers.relay.wire.usage import Completeness, Reading, hidden, meter_for

CHAT, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_EMBEDDINGS
EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN
ANSWER = [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]


def whole(
    family: Family,
    body: Any,
    provider: str = "openai",
    ttls: frozenset[str] = frozenset(),
    clean: bool = True,
) -> Reading:
    """The reading of a JSON answer; bytes go as they are."""
    meter = meter_for(family, sse=False, provider=provider, cache_ttls=ttls)
    meter.feed(body if isinstance(body, bytes) else json.dumps(body).encode())
    return meter.finish(clean=clean)


def chat(usage: Any, provider: str = "openai", **more: Any) -> Reading:
    return whole(CHAT, {"model": "m", "choices": ANSWER, "usage": usage, **more}, provider)


def stream(family: Family, *events: Any, clean: bool = True) -> Reading:
    """The reading of a stream: dicts become data lines, strings go as they are."""
    meter = meter_for(family, sse=True, provider="openai", cache_ttls=frozenset())
    for event in events:
        text = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
        meter.feed(text.encode())
    return meter.finish(clean=clean)


def delta(text: str = "x", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"model": "m", "choices": [choice], "usage": None, **more}


def stop(**more: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **more}


def used(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def last(prompt: int, completion: int) -> dict[str, Any]:
    return {"model": "m", "choices": [], "usage": used(prompt, completion)}


DONE = "data: [DONE]\n\n"


def test_cached_and_audio_tokens_are_parts_of_the_whole() -> None:
    """Each token is in one bucket; cache writes are priced apart."""
    usage = used(
        1000,
        200,
        prompt_tokens_details={"cached_tokens": 600, "audio_tokens": 100, "cache_write_tokens": 50},
        completion_tokens_details={"reasoning_tokens": 80, "audio_tokens": 30},
    )
    expected = Buckets(
        input=250, cache_read=600, cache_write_5m=50, output=170, audio_input=100, audio_output=30
    )
    found = chat(usage)
    assert (found.completeness, found.buckets) == (EXACT, expected)
    assert (found.finish, found.served_model, found.ended, found.provider_fault) == ("stop", "m", True, False)


def test_cache_writes_go_by_the_request_s_lifetimes() -> None:
    """One hour when only that was asked; a mixture leaves the rate open."""
    usage = used(10, 1, prompt_tokens_details={"cache_write_tokens": 4})
    body = {"choices": ANSWER, "usage": usage}
    hour = whole(CHAT, body, ttls=frozenset({"1h"}))
    assert (hour.completeness, hour.buckets) == (EXACT, Buckets(input=6, cache_write_1h=4, output=1))
    assert whole(CHAT, body, ttls=frozenset({"1h", "5m"})).completeness is BOUNDED


def test_another_name_for_cached_tokens() -> None:
    """A compatible provider reports hits beside the details; the details win where both are there."""
    alone = chat(used(100, 5, prompt_cache_hit_tokens=64))
    assert alone.buckets == Buckets(input=36, cache_read=64, output=5)
    both = used(100, 5, prompt_cache_hit_tokens=64, prompt_tokens_details={"cached_tokens": 60})
    assert chat(both).buckets == Buckets(input=40, cache_read=60, output=5)


def test_audio_that_is_partly_cached_has_no_known_rate() -> None:
    """More audio than uncached input: a bound."""
    usage = used(100, 5, prompt_tokens_details={"cached_tokens": 80, "audio_tokens": 50})
    found = chat(usage)
    assert (found.completeness, found.flags) == (BOUNDED, ("cached_audio",))
    assert found.buckets == Buckets(cache_read=80, audio_input=20, output=5)


@pytest.mark.parametrize(
    ("total", "reasoning", "provider", "completeness", "output"),
    [
        (230, 20, "openai", EXACT, 30),
        (730, 500, "xai", EXACT, 530),
        (230, 20, "xai", EXACT, 30),
        (250, 20, "openai", EXACT, 50),
        (None, 20, "openai", EXACT, 30),
        (None, 500, "openai", EXACT, 530),
        (None, 0, "xai", EXACT, 30),
        (None, 20, "xai", BOUNDED, 50),
        (231, 20, "openai", UNKNOWN, None),
        (230, 500, "openai", UNKNOWN, None),
        (0, 0, "openai", UNKNOWN, None),
    ],
)
def test_the_total_decides_whether_reasoning_is_inside(
    total: int | None, reasoning: int, provider: str, completeness: Completeness, output: int | None
) -> None:
    """200 prompt and 30 completion tokens; a total that fits neither reading is the provider's fault."""
    usage = used(200, 30, completion_tokens_details={"reasoning_tokens": reasoning}, total_tokens=total)
    found = chat(usage, provider)
    assert found.completeness is completeness
    assert found.buckets == (None if output is None else Buckets(input=200, output=output))
    assert found.provider_fault == (completeness is UNKNOWN)
    flags = {EXACT: (), BOUNDED: ("reasoning_unclear",), UNKNOWN: ("total_mismatch",)}
    assert found.flags == flags[completeness]


@pytest.mark.parametrize(
    ("usage", "flag"),
    [
        (used(10, 5, prompt_tokens_details={"cached_tokens": 11}), "part_over_whole"),
        (used(10, 5, prompt_tokens_details={"cached_tokens": 6, "cache_write_tokens": 5}), "part_over_whole"),
        (used(10, 5, prompt_tokens_details={"audio_tokens": 11}), "part_over_whole"),
        (used(10, 5, completion_tokens_details={"audio_tokens": 6}), "part_over_whole"),
        (used(-1, 5), "bad_count"),
        (used(10, 5, completion_tokens=5.0), "bad_count"),
        (used(10, 5, prompt_tokens="10"), "bad_count"),
        (used(10, 5, completion_tokens=True), "bad_count"),
        (used(10**13, 5), "bad_count"),
        (used(10, 5, prompt_tokens_details=[]), "bad_count"),
        ({"total_tokens": 5}, "missing_count"),
        ({"prompt_tokens": 5, "total_tokens": 5}, "missing_count"),
        (used(0, 0), "zero_usage"),
    ],
)
def test_usage_that_cannot_be_true_is_not_believed(usage: dict[str, Any], flag: str) -> None:
    """Unknown, and the provider's fault."""
    found = chat(usage)
    assert (found.completeness, found.buckets, found.flags) == (UNKNOWN, None, (flag,))
    assert found.provider_fault


def test_no_tokens_for_no_answer_is_believed() -> None:
    """Zero is a lie only beside content."""
    empty = [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]
    found = whole(CHAT, {"choices": empty, "usage": used(0, 0)})
    assert (found.completeness, found.buckets) == (EXACT, Buckets())


@pytest.mark.parametrize("tier", ["priority", "flex", 5])
def test_an_answer_at_another_tier_is_only_a_bound(tier: Any) -> None:
    """The list price is not what was billed."""
    found = chat(used(10, 5), service_tier=tier)
    assert (found.completeness, found.buckets) == (BOUNDED, Buckets(input=10, output=5))
    assert found.flags == (f"tier:{tier if isinstance(tier, str) else '?'}",)


@pytest.mark.parametrize("tier", [None, "default", "auto", "standard", "on_demand"])
def test_the_list_price_tiers_are_exact(tier: str | None) -> None:
    """By the names that OpenAI and compatible providers use."""
    assert chat(used(10, 5), service_tier=tier).completeness is EXACT


@pytest.mark.parametrize("usage", [None, {}, [], "x"])
def test_an_answer_without_usage_is_unknown(usage: Any) -> None:
    """No estimate is made; by itself it is no fault."""
    found = chat(usage)
    assert (found.completeness, found.buckets, found.provider_fault) == (UNKNOWN, None, False)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b'{"usage":', b"\xff\xfe{}"])
def test_a_body_that_is_no_json_object_is_the_provider_s_fault(body: bytes) -> None:
    """A 200 with an unusable body."""
    found = whole(CHAT, body)
    assert (found.completeness, found.provider_fault, found.ended) == (UNKNOWN, True, False)


def test_a_json_answer_is_usable_only_when_it_is_whole() -> None:
    """Whole although the connection broke after it; leading white space and a byte order mark are fine."""
    body = json.dumps({"choices": ANSWER, "usage": used(10, 5)}).encode()
    assert whole(CHAT, b"\xef\xbb\xbf\n\n" + body, clean=False).completeness is EXACT
    cut = whole(CHAT, body[:-1], clean=False)
    assert (cut.completeness, cut.provider_fault) == (UNKNOWN, True)


def test_an_error_in_a_json_200() -> None:
    """Nothing known, or a bound when usage came with it."""
    bare = whole(CHAT, {"error": {"message": "x"}})
    assert (bare.completeness, bare.provider_fault) == (UNKNOWN, True)
    paid = whole(CHAT, {"error": {"message": "x"}, "usage": used(10, 5)})
    assert (paid.completeness, paid.provider_fault) == (BOUNDED, True)
    assert chat(used(10, 5), error=None).completeness is EXACT


def test_embeddings_have_a_prompt_only() -> None:
    """The total is the prompt; an output is no embedding."""
    body = {"model": "e", "data": [{"embedding": [0.0]}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    found = whole(EMBEDDINGS, body)
    assert (found.completeness, found.buckets, found.finish) == (EXACT, Buckets(input=8), None)
    for usage in ({"prompt_tokens": 8, "total_tokens": 9}, {"prompt_tokens": 8, "completion_tokens": 1}):
        assert whole(EMBEDDINGS, {**body, "usage": usage}).flags == ("total_mismatch",)
    assert whole(EMBEDDINGS, {**body, "usage": {"prompt_tokens": 0}}).flags == ("zero_usage",)


def test_the_usage_chunk_of_a_stream_is_final() -> None:
    """Exact with or without `[DONE]`, also when the connection breaks right after it."""
    for rest, clean in (([DONE], True), ([], True), ([], False)):
        found = stream(CHAT, delta(), delta(), stop(usage=None), last(30, 2), *rest, clean=clean)
        assert (found.completeness, found.buckets) == (EXACT, Buckets(input=30, output=2))
        assert (found.ended, found.provider_fault, found.finish) == (True, False, "stop")


def test_a_stream_without_usage_is_unknown() -> None:
    """Ended properly, so that the provider is not at fault; cut short, it is."""
    ended = stream(CHAT, delta(), stop(), DONE)
    assert (ended.completeness, ended.provider_fault) == (UNKNOWN, False)
    cut = stream(CHAT, delta(), delta(), clean=False)
    assert (cut.completeness, cut.provider_fault, cut.ended) == (UNKNOWN, True, False)


def test_running_totals_in_every_chunk_are_not_added() -> None:
    """The last one wins; cut in the middle it is a bound; usage on the finish chunk is final."""
    chunks = [delta(usage=used(30, count)) for count in range(1, 6)]
    assert stream(CHAT, *chunks, stop(usage=used(30, 5)), clean=False).completeness is EXACT
    assert stream(CHAT, *chunks, stop(), DONE).buckets == Buckets(input=30, output=5)
    assert stream(CHAT, *chunks, stop(), DONE).completeness is EXACT
    for events in (chunks, [*chunks, stop()]):
        found = stream(CHAT, *events, clean=False)
        assert (found.completeness, found.buckets) == (BOUNDED, Buckets(input=30, output=5))


def test_usage_before_the_last_words_is_a_bound() -> None:
    """Content after a report is not in it, wherever the report stood."""
    for first in (delta(usage=used(30, 1)), last(30, 1)):
        found = stream(CHAT, first, delta(), stop(), DONE)
        assert (found.completeness, found.buckets) == (BOUNDED, Buckets(input=30, output=1))
    again = stream(CHAT, last(30, 1), delta(), stop(), last(30, 4), DONE)
    assert (again.completeness, again.buckets) == (EXACT, Buckets(input=30, output=4))


def test_null_fields_never_replace_counts() -> None:
    """Per field the last report that is not null; a total belongs to its own report."""
    first = used(30, 4, prompt_tokens_details={"cached_tokens": 10})
    second = {"prompt_tokens": None, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": None}}
    found = stream(CHAT, stop(usage=first), {"model": "m", "choices": [], "usage": second}, DONE)
    assert (found.completeness, found.buckets) == (EXACT, Buckets(input=20, cache_read=10, output=6))


def test_all_choices_must_finish() -> None:
    """A cut between two choices leaves the second one open."""
    second = {"index": 1, "delta": {"content": "y"}, "finish_reason": None}
    both = {"model": "m", "choices": [delta()["choices"][0], second], "usage": used(30, 2)}
    found = stream(CHAT, both, stop(usage=used(30, 3)), clean=False)
    assert (found.completeness, found.ended) == (BOUNDED, False)


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "overloaded"}},
        'event: error\ndata: {"message":"x"}\n\n',
        "event: error\ndata: oops\n\n",
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]},
    ],
)
def test_an_error_inside_a_stream(error: Any) -> None:
    """Unknown without usage, a bound with some before or after it, exact when usage was final already."""
    bare = stream(CHAT, delta(), error, clean=False)
    before = stream(CHAT, delta(usage=used(30, 1)), error, DONE)
    after = stream(CHAT, delta(), error, last(30, 1), DONE)
    final = stream(CHAT, delta(), stop(), last(30, 1), error)
    found = [reading.completeness for reading in (bare, before, after, final)]
    assert found == [UNKNOWN, BOUNDED, BOUNDED, EXACT]
    assert all(reading.provider_fault for reading in (bare, before, after, final))


def test_text_that_looks_like_fields_hides_nothing() -> None:
    """Deltas are not all parsed; what a model writes cannot pass for usage, an end or an error."""
    words = '"usage":null "usage":{"prompt_tokens":1} "error":{} "finish_reason":"stop" [DONE]'
    found = stream(CHAT, delta(), delta(words), delta("[DONE]"), clean=False)
    assert (found.completeness, found.flags, found.ended) == (UNKNOWN, (), False)
    found = stream(CHAT, delta(), delta(words), stop(), last(30, 9), DONE)
    assert (found.completeness, found.buckets) == (EXACT, Buckets(input=30, output=9))


def test_fields_are_seen_in_any_spacing() -> None:
    """Compact and spaced JSON, and fields in another order than usual."""
    for separators in ((",", ":"), (", ", ": "), (" , ", " : ")):
        events = [delta(), delta(), {"usage": used(3, 2), "choices": []}]
        lines = [f"data: {json.dumps(event, separators=separators)}\n\n" for event in events]
        assert stream(CHAT, *lines, clean=False).completeness is EXACT


def test_only_the_chunk_without_choices_is_hidden() -> None:
    """It is there for us; usage beside choices, null usage and text stay with the client."""

    def event(item: Any) -> Event:
        return SseParser().feed(f"data: {json.dumps(item)}\n\n".encode())[0]

    assert hidden(event(last(1, 1)))
    null: dict[str, Any] = {"choices": [], "usage": None}
    for item in (delta(), stop(usage=used(1, 1)), null, {"usage": used(1, 1)}, ["usage"]):
        assert not hidden(event(item))
    for raw in (b": ping\n\n", b"data: [DONE]\n\n", b'data: "usage"\n\n', b'data: {"usage":\n\n'):
        assert not hidden(SseParser().feed(raw)[0])
