"""Whatever a provider sends, a meter gives a reading, and the same one for every split of the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.wire import usage as module
from workers.relay.wire.family import Family
from workers.relay.wire.sse import SseParser
from workers.relay.wire.usage import Completeness, Reading, meter_for

WORDS = st.sampled_from(
    [
        *("usage", "usageMetadata", "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens"),
        *("output_tokens", "prompt_tokens_details", "cached_tokens", "reasoning_tokens", "choices", "delta"),
        *("message", "finish_reason", "index", "error", "type", "response", "item", "output", "status", "id"),
        *("message_start", "message_delta", "message_stop", "response.completed", "response.failed", "stop"),
        *("stop_reason", "cache_creation", "cache_creation_input_tokens", "server_tool_use", "candidates"),
        *("iterations", "content", "parts", "finishReason", "promptTokenCount", "promptTokensDetails"),
        *("totalTokenCount", "promptFeedback", "blockReason", "service_tier", "model", "data", "speed"),
        *("incomplete_details", "web_search_call", "web_search_requests", "input_tokens_details", "modality"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 40) | st.floats(0, 9) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=6)
FAMILIES = st.sampled_from(Family)
PROVIDERS = st.sampled_from(["openai", "xai"])
TTLS = st.frozensets(st.sampled_from(["5m", "1h"]))


def line(item: Any, name: str | None) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(item)}\n\n".encode()


def check(found: Reading, clean: bool) -> None:
    """What holds of every reading."""
    assert (found.completeness is Completeness.UNKNOWN) == (found.buckets is None)
    if found.buckets is not None:
        assert all(count >= 0 for count in (*found.buckets.tokens().values(), *found.buckets.calls.values()))
    if not clean and not found.ended:
        assert found.provider_fault
        assert found.completeness is not Completeness.EXACT


@given(FAMILIES, PROVIDERS, TTLS, st.booleans(), st.booleans(), st.binary(max_size=200))
def test_any_bytes_give_a_reading(
    family: Family, provider: str, ttls: frozenset[str], sse: bool, clean: bool, body: bytes
) -> None:
    """As JSON or as a stream."""
    meter = meter_for(family, sse=sse, provider=provider, cache_ttls=ttls)
    meter.feed(body)
    check(meter.finish(clean=clean), clean)


@given(FAMILIES, PROVIDERS, TTLS, st.booleans(), VALUES | OBJECTS)
def test_any_json_gives_a_reading(
    family: Family, provider: str, ttls: frozenset[str], clean: bool, body: Any
) -> None:
    """Built from the words that meters look for."""
    meter = meter_for(family, sse=False, provider=provider, cache_ttls=ttls)
    meter.feed(json.dumps(body).encode())
    check(meter.finish(clean=clean), clean)


STREAMS = st.lists(st.tuples(VALUES | OBJECTS, st.none() | WORDS), max_size=6)


@given(FAMILIES, PROVIDERS, TTLS, st.booleans(), STREAMS, st.integers(1, 50))
def test_any_stream_gives_one_reading(
    family: Family,
    provider: str,
    ttls: frozenset[str],
    clean: bool,
    items: list[tuple[Any, str | None]],
    size: int,
) -> None:
    """Fed as bytes of any size or as events of the server's own parser."""
    body = b"".join(line(item, name) for item, name in items)
    by_bytes = meter_for(family, sse=True, provider=provider, cache_ttls=ttls)
    for at in range(0, len(body), size):
        by_bytes.feed(body[at : at + size])
    by_events = meter_for(family, sse=True, provider=provider, cache_ttls=ttls)
    by_events.events(SseParser().feed(body))
    found = by_bytes.finish(clean=clean)
    assert found == by_events.finish(clean=clean)
    check(found, clean)


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("sse", [True, False])
def test_extreme_json_gives_a_reading(family: Family, sse: bool) -> None:
    """Nesting and numbers beyond what the interpreter reads."""
    for value in (b"[" * 100_000, b'{"usage":' * 100_000, b'{"usage":' + b"9" * 5_000 + b"}", b"[NaN,1e999]"):
        meter = meter_for(family, sse=sse, provider="openai", cache_ttls=frozenset())
        meter.feed(b"data: " + value + b"\n\n" if sse else value)
        assert meter.finish(clean=True).completeness is Completeness.UNKNOWN


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is kept, and the usage is unknown."""
    monkeypatch.setattr(module, "ANSWER_LIMIT_BYTES", 100)
    meter = meter_for(Family.OPENAI_CHAT, sse=False, provider="openai", cache_ttls=frozenset())
    for _ in range(3):
        meter.feed(b" " * 60)
    meter.feed(b"{}")
    found = meter.finish(clean=True)
    assert (found.completeness, found.flags) == (Completeness.UNKNOWN, ("answer_too_large",))
    assert found.provider_fault


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it counts as cut."""
    monkeypatch.setattr(module, "SseParser", lambda: SseParser(limit_bytes=100))
    meter = meter_for(Family.OPENAI_CHAT, sse=True, provider="openai", cache_ttls=frozenset())
    meter.feed(b"data: " + b"x" * 200)
    meter.feed(b"\n\ndata: [DONE]\n\n")
    found = meter.finish(clean=True)
    assert (found.completeness, found.flags) == (Completeness.UNKNOWN, ("event_too_large",))
    assert (found.ended, found.provider_fault) == (False, True)


def test_a_json_meter_takes_events_as_bytes() -> None:
    """An answer that only claimed to be a stream."""
    body = b'{"choices":[],\n\n"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
    meter = meter_for(Family.OPENAI_CHAT, sse=False, provider="openai", cache_ttls=frozenset())
    meter.events(SseParser().feed(body))
    assert meter.finish(clean=True).completeness is Completeness.EXACT
