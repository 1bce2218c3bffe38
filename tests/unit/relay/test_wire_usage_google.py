"""Usage of Gemini: prompt with cache, thoughts beside candidates, running totals, streamed arrays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness, Reading, meter_for

EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN


def chunk(usage: Any = None, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": "x"}]}, "index": index, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    answer = {"candidates": [candidate], "modelVersion": "m"}
    return answer if usage is None else {**answer, "usageMetadata": usage}


def used(prompt: int, candidates: int, **more: Any) -> dict[str, Any]:
    return {"promptTokenCount": prompt, "candidatesTokenCount": candidates, **more}


def whole(body: Any, clean: bool = True) -> Reading:
    meter = meter_for(Family.GOOGLE, sse=False, provider="google", cache_ttls=frozenset())
    meter.feed(body if isinstance(body, bytes) else json.dumps(body).encode())
    return meter.finish(clean=clean)


def stream(*chunks: dict[str, Any], clean: bool = True) -> Reading:
    meter = meter_for(Family.GOOGLE, sse=True, provider="google", cache_ttls=frozenset())
    for item in chunks:
        meter.feed(f"data: {json.dumps(item)}\r\n\r\n".encode())
    return meter.finish(clean=clean)


def array(*chunks: dict[str, Any]) -> bytes:
    """The stream without `alt=sse`."""
    return b"[" + b",\r\n".join(json.dumps(item).encode() for item in chunks) + b"\n]"


def test_every_part_has_its_side() -> None:
    """Cached is inside the prompt; thoughts and tool prompts are beside what they belong to."""
    usage = used(
        100,
        20,
        cachedContentTokenCount=60,
        thoughtsTokenCount=30,
        toolUsePromptTokenCount=7,
        totalTokenCount=157,
    )
    found = whole(chunk(usage, "STOP"))
    assert (found.completeness, found.buckets) == (EXACT, Buckets(input=47, cache_read=60, output=50))
    assert (found.finish, found.served_model, found.ended, found.provider_fault) == ("STOP", "m", True, False)


@pytest.mark.parametrize(
    ("usage", "flag"),
    [
        (used(10, 5, totalTokenCount=16), "total_mismatch"),
        (used(10, 5, thoughtsTokenCount=3, totalTokenCount=15), "total_mismatch"),
        (used(10, 5, cachedContentTokenCount=11), "part_over_whole"),
        (used(10, 5, promptTokensDetails=[{"modality": "AUDIO", "tokenCount": 11}]), "part_over_whole"),
        (used(10, 5, candidatesTokensDetails=[{"modality": "AUDIO", "tokenCount": 6}]), "part_over_whole"),
        (used(10, 5, promptTokensDetails=[5]), "bad_count"),
        (used(10, 5, promptTokensDetails=[{"modality": "AUDIO", "tokenCount": -1}]), "bad_count"),
        (used(10, -5), "bad_count"),
        (used(True, 5), "bad_count"),
        ({"candidatesTokenCount": 5}, "missing_count"),
        (used(0, 0, totalTokenCount=0), "zero_usage"),
    ],
)
def test_usage_that_cannot_be_true_is_not_believed(usage: dict[str, Any], flag: str) -> None:
    """Unknown, and the provider's fault."""
    found = whole(chunk(usage, "STOP"))
    assert (found.completeness, found.buckets, found.flags) == (UNKNOWN, None, (flag,))
    assert found.provider_fault


def test_audio_has_buckets_of_its_own() -> None:
    """Input and output; text and images are plain input."""
    heard = [{"modality": "TEXT", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 40}]
    said = [{"modality": "AUDIO", "tokenCount": 20}]
    found = whole(chunk(used(100, 50, promptTokensDetails=heard, candidatesTokensDetails=said), "STOP"))
    assert found.completeness is EXACT
    assert found.buckets == Buckets(input=60, audio_input=40, output=30, audio_output=20)


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        ({"cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 1}]}, "cached_audio"),
        ({"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1}]}, "modality:image"),
        ({"serviceTier": "priority"}, "tier:priority"),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, "tier:PROVISIONED_THROUGHPUT"),
    ],
)
def test_tokens_without_a_known_rate_are_a_bound(more: dict[str, Any], flag: str) -> None:
    """The counts are believed, their price is not known."""
    found = whole(chunk(used(10, 5, cachedContentTokenCount=4, **more), "STOP"))
    assert (found.completeness, found.flags) == (BOUNDED, (flag,))


def test_list_price_names_and_grounding() -> None:
    """A grounded answer has a fee that no usage field tells."""
    plain = used(10, 5, serviceTier="standard", trafficType="ON_DEMAND")
    assert whole(chunk(plain, "STOP")).completeness is EXACT
    grounded = whole(chunk(used(10, 5), "STOP", groundingMetadata={"webSearchQueries": ["x"]}))
    assert (grounded.completeness, grounded.flags) == (BOUNDED, ("tool:google_search",))


def test_a_blocked_prompt_is_billed_and_ended() -> None:
    """No candidate comes, in a stream neither."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 10}}
    for found in (whole(blocked), stream(blocked)):
        assert (found.completeness, found.buckets) == (EXACT, Buckets(input=10))
        assert (found.finish, found.ended, found.provider_fault) == ("SAFETY", True, False)


CHUNKS = [
    chunk({"promptTokenCount": 100, "totalTokenCount": 100}),
    chunk(used(100, 5, thoughtsTokenCount=40, totalTokenCount=145)),
    chunk(used(100, 12, totalTokenCount=152), "STOP"),
]
FINAL = Buckets(input=100, output=52)


def test_reports_of_a_stream_are_running_totals() -> None:
    """Fields that a later chunk leaves out keep their last value; a break after the end loses nothing."""
    for found in (stream(*CHUNKS), stream(*CHUNKS, clean=False), whole(array(*CHUNKS))):
        assert (found.completeness, found.buckets, found.ended) == (EXACT, FINAL, True)


def test_a_cut_stream_is_a_bound() -> None:
    """As events or as an array that is not closed, also when the last element is torn."""
    body = array(*CHUNKS)
    torn = [body[: body.index(b"STOP")], body[: body.index(b",\r\n", body.index(b"thoughts"))]]
    arrays = [*(whole(part, clean=False) for part in torn), whole(torn[0])]
    for found in (stream(*CHUNKS[:2], clean=False), *arrays):
        assert (found.completeness, found.buckets) == (BOUNDED, Buckets(input=100, output=45))
        assert (found.ended, found.provider_fault) == (False, True)
    assert whole(b"[", clean=False).completeness is UNKNOWN
    assert whole(body[:-1], clean=False).completeness is EXACT


def test_usage_before_the_last_words_is_a_bound() -> None:
    """An end without content keeps the report before it, on a clean end only."""
    late = stream(chunk(used(100, 5)), chunk(), chunk(None, "STOP"))
    assert (late.completeness, late.ended) == (BOUNDED, True)
    bare = {"candidates": [{"index": 0, "finishReason": "STOP"}]}
    assert stream(chunk(used(100, 5)), bare).completeness is EXACT
    assert stream(chunk(used(100, 5)), bare, clean=False).completeness is BOUNDED


def test_every_candidate_must_finish() -> None:
    """One of two candidates is still running at the cut."""
    both = {"candidates": [chunk()["candidates"][0], chunk(index=1)["candidates"][0]]}
    found = stream(both, chunk(used(100, 5), "STOP"), clean=False)
    assert (found.completeness, found.ended) == (BOUNDED, False)
    ended = stream(both, chunk(None, "STOP"), chunk(used(100, 9), "STOP", index=1), clean=False)
    assert (ended.completeness, ended.ended) == (EXACT, True)


def test_an_error_inside_a_stream() -> None:
    """As an event or an element: unknown, bound or exact by the usage before it."""
    error = {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}
    for play in (stream, lambda *chunks: whole(array(*chunks))):
        found = [play(error), play(*CHUNKS[:2], error), play(error, *CHUNKS), play(*CHUNKS, error)]
        assert [reading.completeness for reading in found] == [UNKNOWN, BOUNDED, BOUNDED, EXACT]
        assert all(reading.provider_fault for reading in found)


@pytest.mark.parametrize("body", [b"", b"[1, 2]", b"[[]]", b"[nonsense]", b"{}x"])
def test_a_body_without_usable_objects_is_the_provider_s_fault(body: bytes) -> None:
    """Arrays of something else, and no JSON at all."""
    found = whole(body)
    assert (found.completeness, found.provider_fault) == (UNKNOWN, True)
