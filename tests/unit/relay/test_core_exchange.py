"""One call from its admission to its end, against a scripted answer: nothing leaks, nothing stays open."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orchestrator.evidence.transcript import Kind
from workers.relay.gate import Gate
from workers.relay.routes import Purpose, Route
from workers.relay.upstream import UnreachableError
from workers.relay.wire.family import Family

KEY = "sk-live-0123456789abcdefghijklmn"
SSE, JSON = "text/event-stream", "application/json"
BATCH_BYTES = 256 << 10
CHAT = Route(Family.OPENAI_CHAT, Purpose.GENERATE, "/chat/completions")
ARRAY = Route(
    Family.GOOGLE, Purpose.GENERATE, "/v1beta/models/gem:streamGenerateContent", model="gem", sse=False
)
COST_NUSD = 10 * 2 + 5 * 8


def answer_json(**changes: Any) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    choice = {"index": 0, "message": {"role": "assistant", "content": "y"}, "finish_reason": "stop"}
    return json.dumps({"model": "plain", "choices": [choice], "usage": usage, **changes}).encode()


def usage_events() -> list[bytes]:
    """The end of a chat stream: its words, its usage, its end mark."""
    words = {"model": "plain", "choices": [{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    events = [words, {"model": "plain", "choices": [], "usage": usage}]
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


def assert_clean(shown: bytes) -> None:
    """Neither the key nor twelve bytes from its beginning."""
    assert KEY[:12].encode() not in shown


@pytest.fixture
def bench(exchange_bench: Callable[..., Any], desk: Callable[..., Any], tmp_path: Path) -> Any:
    return exchange_bench(desk(state_dir=tmp_path), KEY)


def test_an_exact_answer_is_booked_at_its_cost_and_passes_unchanged(bench: Any) -> None:
    """The rest of the hold is free again."""
    pieces = [answer_json()[:7], answer_json()[7:]]
    head, body = bench.plays(bench.answer(200, {"content-type": JSON}, pieces))
    assert (head.status if head else None, body) == (200, answer_json())
    assert bench.money() == (COST_NUSD, 0, 1)
    assert bench.lane.tally.last_generation == "ok"


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 13, 20, len(KEY) - 1])
def test_a_key_between_two_batches_of_the_transcript_is_in_neither(bench: Any, cut: int) -> None:
    """A batch is scrubbed for itself, so an end that may be the beginning of a key waits for the next."""
    first = b": " + b"x" * BATCH_BYTES + KEY[:cut].encode()
    pieces = [first, KEY[cut:].encode() + b"\n\n", *usage_events()]
    bench.plays(bench.answer(200, {"content-type": SSE}, pieces))
    assert len(bench.of(Kind.BODY)) == 2
    assert_clean(bench.payload())
    assert b"x[provider key]\n" in bench.payload()
    assert bench.money()[0] == COST_NUSD


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 13, 20, len(KEY) - 1])
def test_a_key_between_two_pieces_of_a_json_stream_does_not_reach_the_client(bench: Any, cut: int) -> None:
    """Gemini's array is passed on as it comes, piece by piece."""
    item = {"candidates": [{"content": {"parts": [{"text": KEY}]}, "finishReason": "STOP"}]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    raw = json.dumps([{**item, "usageMetadata": usage}]).encode()
    at = raw.index(KEY.encode()) + cut
    _, body = bench.plays(bench.answer(200, {"content-type": JSON}, [raw[:at], raw[at:]]), ARRAY)
    assert_clean(body)
    assert body == raw.replace(KEY.encode(), b"[provider key]") == bench.payload()
    assert bench.lane.tally.exact == 1


def test_a_key_in_an_event_reaches_neither_client_nor_transcript(bench: Any) -> None:
    """Events are whole when they are passed on."""
    event = b'data: {"id": "%s"}\n\n' % KEY.encode()
    pieces = [event[:20], event[20:], *usage_events()]
    _, body = bench.plays(bench.answer(200, {"content-type": SSE}, pieces))
    assert b"[provider key]" in body
    assert_clean(body)
    assert_clean(bench.payload())


def test_a_key_in_a_word_of_the_provider_is_not_in_the_settlement(bench: Any) -> None:
    """Model, reason and tier of an answer end in evidence and in the lane's report."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "y"}, "finish_reason": f"f {KEY}"}
    odd = answer_json(model=f"m {KEY}", choices=[choice], service_tier=f"t {KEY}")
    bench.plays(bench.answer(200, {"content-type": JSON, "x-request-id": KEY}, [odd]))
    assert_clean(bench.raw())
    assert_clean(json.dumps(bench.lane.state().as_data()).encode())
    assert bench.of(Kind.SETTLE)[0]["data"]["servedModel"] == "m [provider key]"


def test_a_key_in_an_error_reaches_nobody(bench: Any) -> None:
    """Shortened as providers do it, in body and headers."""
    text = f"Incorrect API key provided: {KEY[:14]}****".encode()
    head, body = bench.plays(bench.answer(400, {"content-type": "text/plain", "x-debug": KEY}, [text]))
    assert head is not None and head.status == 400
    assert_clean(body + repr(head.headers).encode() + bench.raw())


def test_a_call_cut_by_the_relay_is_unknown_and_not_the_providers_fault(bench: Any) -> None:
    """The hold stays booked; blame would turn the agent's own time-out into an outage."""

    async def cut() -> Any:
        exchange = bench.begin(CHAT)
        forever = asyncio.Event()
        answer = bench.answer(200, {"content-type": SSE}, [b": on my way\n\n", forever])
        task = asyncio.create_task(exchange.run(bench.upstream(answer)))
        await exchange.outbox.take()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await bench.seen(exchange), exchange.outbox.broken

    _, broken = bench.run(cut())
    data = bench.of(Kind.SETTLE)[0]["data"]
    assert (data["completeness"], data["problem"], data["fault"]) == ("unknown", "cut", None)
    assert bench.money() == (bench.held_nusd, 0, 1)
    assert bench.lane.tally.last_generation is None
    assert bench.lane.tally.provider_failures == 0
    assert broken


def test_a_call_that_never_left_the_relay_costs_nothing(bench: Any) -> None:
    """Cut while it waits for its turn at the provider: released, no step, no unknown cost."""

    async def cut() -> None:
        upstream = bench.upstream(bench.answer(200, {"content-type": JSON}, [answer_json()]))
        upstream.gates["openai"] = Gate(replace(bench.lane.terms.providers["openai"], max_parallel=1))
        async with upstream.gates["openai"].place():
            task = asyncio.create_task(bench.begin(CHAT).run(upstream))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    bench.run(cut())
    assert bench.money() == (0, 0, 0)
    assert bench.lane.tally.complete
    assert bench.lane.tally.last_generation is None
    assert [record["data"]["problem"] for record in bench.of(Kind.RELEASE)] == ["cut"]


def test_trouble_of_our_own_before_the_dispatch_books_nothing(bench: Any, tmp_path: Path) -> None:
    """A folder of limits that is gone: the call was never sent, no hold stays, the try is not judged."""

    async def refused() -> Any:
        upstream = bench.upstream(bench.answer(200, {"content-type": JSON}, [answer_json()]))
        limited = replace(bench.lane.terms.providers["openai"], max_parallel=1)
        upstream.gates["openai"] = Gate(limited, tmp_path / "gone" / "limits")
        exchange = bench.begin(CHAT)
        await exchange.run(upstream)
        return await bench.seen(exchange)

    head, _ = bench.run(refused())
    assert head is not None and head.status == 502
    assert bench.money() == (0, 0, 0)
    assert bench.lane.tally.platform_fault == "relay:FileNotFoundError"
    assert [record["data"]["problem"] for record in bench.of(Kind.RELEASE)] == ["relay"]


@pytest.mark.parametrize("reached", [True, False])
def test_no_answer_costs_the_hold_only_if_the_request_may_have_arrived(bench: Any, reached: bool) -> None:
    """A refused connection cannot have been billed; a lost answer can."""
    head, body = bench.plays(UnreachableError("gone", reached=reached))
    assert bench.money() == ((bench.held_nusd, 0, 1) if reached else (0, 0, 0))
    assert bench.lane.tally.last_generation == "provider"
    assert head is not None and head.status == 502
    assert json.loads(body)["error"]["code"] == "provider_unreachable"


@pytest.mark.parametrize("kind", [SSE, JSON])
@pytest.mark.parametrize("error", [aiohttp.ClientPayloadError("cut"), TimeoutError(), ConnectionResetError()])
def test_an_answer_that_breaks_off_keeps_its_hold(bench: Any, kind: str, error: Exception) -> None:
    """200 and then nothing is bounded or unknown, and the provider's trouble (section 2, settle)."""
    start = answer_json()[:30] if kind == JSON else b"data: {}\n\n"
    bench.plays(bench.answer(200, {"content-type": kind}, [start, error]))
    assert bench.money() == (bench.held_nusd, 0, 1)
    assert bench.lane.tally.last_generation == "provider"
    assert not bench.lane.tally.complete


@pytest.mark.parametrize(
    ("status", "last", "shown", "platform"),
    [
        (400, "agent", 400, False),
        (404, "provider", 404, False),
        (429, "provider", 429, False),
        (529, "provider", 529, False),
        (302, "provider", 502, False),
        (401, "platform", 502, True),
    ],
)
def test_an_error_before_any_answer_costs_nothing_and_is_no_step(
    bench: Any, status: int, last: str, shown: int, platform: bool
) -> None:
    """Released whole; whose trouble it is decides what the client sees."""
    head, body = bench.plays(bench.answer(status, {"content-type": JSON}, [b'{"said": 1}']))
    assert bench.money() == (0, 0, 0)
    assert bench.lane.tally.last_generation == last
    assert head is not None and head.status == shown
    assert (bench.lane.tally.platform_fault is not None) == platform
    if platform:
        told = json.loads(body)["error"]
        assert told["code"] == "platform_fault" and b"401" not in body and b"said" not in body


def test_an_encoding_that_cannot_be_read_leaves_the_cost_unknown(bench: Any) -> None:
    """The bytes go on with their header; what they say is not for us."""
    packed = {"content-type": JSON, "content-encoding": "br"}
    head, body = bench.plays(bench.answer(200, packed, [b"\x00\xff\x01"]))
    assert (body, dict(head.headers if head else [])["content-encoding"]) == (b"\x00\xff\x01", "br")
    assert bench.money() == (bench.held_nusd, 0, 1)
    assert bench.of(Kind.SETTLE)[0]["data"]["completeness"] == "unknown"


@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.BODY, Kind.SETTLE])
def test_a_full_disk_is_trouble_of_the_house_and_no_hold_stays_open(
    bench: Any, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever cannot be written: the call ends, its hold is booked or its cost, the try is not judged."""
    write = bench.lane.record

    def full(what: Kind, *rest: Any, **more: Any) -> None:
        if what is kind:
            raise OSError(errno.ENOSPC, "no space left")
        write(what, *rest, **more)

    monkeypatch.setattr(bench.lane, "record", full)
    pieces = [b": " + b"x" * BATCH_BYTES + b"\n\n", *usage_events()]
    head, broken = bench.plays_on(bench.answer(200, {"content-type": SSE}, pieces))
    assert bench.lane.tally.platform_fault == "relay:OSError"
    assert head is None or head.status == 502 or broken
    assert bench.lane.budget.held_nusd == 0
    assert bench.lane.budget.spent_nusd > 0
    assert bench.lane.tally.provider_failures == 0


def test_every_end_takes_the_call_off_the_lane(bench: Any) -> None:
    """An open call would hold up the lane's end."""

    async def play() -> None:
        exchange = bench.begin(CHAT)
        answer = bench.answer(200, {"content-type": JSON}, [answer_json()])
        task = asyncio.create_task(exchange.run(bench.upstream(answer)))
        bench.lane.started(1, task)
        await task

    bench.run(play())
    assert bench.lane.calls == {}
