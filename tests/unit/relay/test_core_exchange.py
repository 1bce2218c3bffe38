"""One call from its admission to its end, against a scripted answer: nothing leaks, nothing stays open."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orchestrator.evidence.transcript import Kind, ledger_of, read
from workers.relay.config import Provider
from workers.relay.exchange import Exchange
from workers.relay.lane import Lane
from workers.relay.outbox import Head
from workers.relay.redact import Redactor
from workers.relay.routes import Purpose, Route
from workers.relay.upstream import Gate, UnreachableError
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


class Content:
    """The pieces of a body; an exception among them is raised, an event is waited for."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = pieces

    async def iter_any(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, BaseException):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    def at_eof(self) -> bool:
        return True


class Answer:
    def __init__(self, status: int, headers: dict[str, str], pieces: list[Any]) -> None:
        self.status, self.headers, self.content = status, headers, Content(pieces)

    def close(self) -> None:
        """Nothing to give back."""

    release = close


class Scripted:
    """Stands for `Upstream`: one answer or one error for every call."""

    def __init__(self, providers: Mapping[str, Provider], given: Answer | Exception) -> None:
        self.gates = {name: Gate(provider) for name, provider in providers.items()}
        self._given = given

    async def send(self, provider: Provider, url: str, headers: Any, body: bytes) -> Answer:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given


class Bench:
    """A lane with its transcript in a folder; `play` brings one admitted call to its end."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk
        terms = desk.terms
        self._providers = terms.providers
        self.lane = Lane(terms.order, terms.providers, terms.prices, Redactor([KEY]), lambda lane: None)
        self.held_nusd = 0

    def begin(self, route: Route) -> Exchange:
        """Admit a call as the handler does."""
        google = route.family is Family.GOOGLE
        body = {"contents": []} if google else {"model": "plain", "max_tokens": 50}
        admitted = replace(self._desk.asks(route.family, body, model=route.model), route=route)
        assert admitted.held is not None
        call, self.held_nusd = self.lane.next_call(), admitted.held.nusd
        shown = {"purpose": "generate", "model": admitted.pin.model, "provider": admitted.provider.name}
        self.lane.record(Kind.ADMIT, call, {**shown, "holdNusd": self.held_nusd})
        self.lane.budget.hold(call, self.held_nusd)
        return Exchange(self.lane, call, admitted, [])

    def upstream(self, given: Answer | Exception) -> Any:
        return Scripted(self._providers, given)

    def plays(self, given: Answer | Exception, route: Route = CHAT) -> tuple[Head | None, bytes]:
        """Head and bytes that the client gets; the money on disk is then the money in memory."""

        async def play() -> tuple[Head | None, bytes]:
            exchange = self.begin(route)
            await exchange.run(self.upstream(given))
            return await seen(exchange)

        return run(play())

    def plays_on(self, given: Answer) -> tuple[Head | None, bool]:
        """The head, and whether the client saw the answer break off."""

        async def play() -> tuple[Head | None, bool]:
            exchange = self.begin(CHAT)
            await exchange.run(self.upstream(given))
            return await exchange.outbox.head(), exchange.outbox.broken

        found: tuple[Head | None, bool] = run(play())
        return found

    def raw(self) -> bytes:
        return (self.lane.order.state_dir / "transcript.jsonl").read_bytes()

    def of(self, kind: Kind) -> list[Mapping[str, Any]]:
        return [record for record in read(self.raw()).records if record["kind"] == kind]

    def payload(self) -> bytes:
        """Everything that was kept of the answer."""
        kept = (record["payload"] for record in self.of(Kind.BODY))
        return b"".join(
            base64.b64decode(one["base64"]) if "base64" in one else one["text"].encode() for one in kept
        )

    def money(self) -> tuple[int, int, int]:
        """Spent, held and steps, which the transcript alone must give as well."""
        budget = self.lane.budget
        assert ledger_of(read(self.raw()).records).spent_nusd == budget.spent_nusd + budget.held_nusd
        return budget.spent_nusd, budget.held_nusd, budget.steps


async def seen(exchange: Exchange) -> tuple[Head | None, bytes]:
    head, body = await exchange.outbox.head(), b""
    while (data := await exchange.outbox.take()) is not None:
        body += data
    return head, body if head is None or head.body is None else head.body


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


@pytest.fixture
def bench(desk: Callable[..., Any], tmp_path: Path) -> Bench:
    return Bench(desk(state_dir=tmp_path))


def test_an_exact_answer_is_booked_at_its_cost_and_passes_unchanged(bench: Bench) -> None:
    """The rest of the hold is free again."""
    head, body = bench.plays(Answer(200, {"content-type": JSON}, [answer_json()[:7], answer_json()[7:]]))
    assert (head.status if head else None, body) == (200, answer_json())
    assert bench.money() == (COST_NUSD, 0, 1)
    assert bench.lane.tally.last_generation == "ok"


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 13, 20, len(KEY) - 1])
def test_a_key_between_two_batches_of_the_transcript_is_in_neither(bench: Bench, cut: int) -> None:
    """A batch is scrubbed for itself, so an end that may be the beginning of a key waits for the next."""
    first = b": " + b"x" * BATCH_BYTES + KEY[:cut].encode()
    bench.plays(Answer(200, {"content-type": SSE}, [first, KEY[cut:].encode() + b"\n\n", *usage_events()]))
    assert len(bench.of(Kind.BODY)) == 2
    assert_clean(bench.payload())
    assert b"x[provider key]\n" in bench.payload()
    assert bench.money()[0] == COST_NUSD


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 13, 20, len(KEY) - 1])
def test_a_key_between_two_pieces_of_a_json_stream_does_not_reach_the_client(bench: Bench, cut: int) -> None:
    """Gemini's array is passed on as it comes, piece by piece."""
    item = {"candidates": [{"content": {"parts": [{"text": KEY}]}, "finishReason": "STOP"}]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    raw = json.dumps([{**item, "usageMetadata": usage}]).encode()
    at = raw.index(KEY.encode()) + cut
    head, body = bench.plays(Answer(200, {"content-type": JSON}, [raw[:at], raw[at:]]), ARRAY)
    assert_clean(body)
    assert body == raw.replace(KEY.encode(), b"[provider key]") == bench.payload()
    assert bench.lane.tally.exact == 1


def test_a_key_in_an_event_reaches_neither_client_nor_transcript(bench: Bench) -> None:
    """Events are whole when they are passed on."""
    event = b'data: {"id": "%s"}\n\n' % KEY.encode()
    pieces = [event[:20], event[20:], *usage_events()]
    _, body = bench.plays(Answer(200, {"content-type": SSE}, pieces))
    assert b"[provider key]" in body
    assert_clean(body)
    assert_clean(bench.payload())


def test_a_key_in_a_word_of_the_provider_is_not_in_the_settlement(bench: Bench) -> None:
    """Model, reason and tier of an answer end in evidence and in the lane's report."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "y"}, "finish_reason": f"f {KEY}"}
    odd = answer_json(model=f"m {KEY}", choices=[choice], service_tier=f"t {KEY}")
    bench.plays(Answer(200, {"content-type": JSON, "x-request-id": KEY}, [odd]))
    assert_clean(bench.raw())
    assert_clean(json.dumps(bench.lane.state().as_data()).encode())
    assert bench.of(Kind.SETTLE)[0]["data"]["servedModel"] == "m [provider key]"


def test_a_key_in_an_error_reaches_nobody(bench: Bench) -> None:
    """Shortened as providers do it, in body and headers."""
    text = f"Incorrect API key provided: {KEY[:14]}****".encode()
    head, body = bench.plays(Answer(400, {"content-type": "text/plain", "x-debug": KEY}, [text]))
    assert head is not None and head.status == 400
    assert_clean(body + repr(head.headers).encode() + bench.raw())


def test_a_call_cut_by_the_relay_is_unknown_and_not_the_providers_fault(bench: Bench) -> None:
    """The hold stays booked; blame would turn the agent's own time-out into an outage."""

    async def cut() -> Any:
        exchange = bench.begin(CHAT)
        forever = asyncio.Event()
        answer = Answer(200, {"content-type": SSE}, [b": on my way\n\n", forever])
        task = asyncio.create_task(exchange.run(bench.upstream(answer)))
        await exchange.outbox.take()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await seen(exchange), exchange.outbox.broken

    _, broken = run(cut())
    data = bench.of(Kind.SETTLE)[0]["data"]
    assert (data["completeness"], data["problem"], data["fault"]) == ("unknown", "cut", None)
    assert bench.money() == (bench.held_nusd, 0, 1)
    assert bench.lane.tally.last_generation is None
    assert bench.lane.tally.provider_failures == 0
    assert broken


def test_a_call_that_never_left_the_relay_costs_nothing(bench: Bench) -> None:
    """Cut while it waits for its turn at the provider: released, no step, no unknown cost."""

    async def cut() -> None:
        upstream = bench.upstream(Answer(200, {"content-type": JSON}, [answer_json()]))
        upstream.gates["openai"] = Gate(replace(bench.lane.terms.providers["openai"], max_parallel=1))
        async with upstream.gates["openai"].place():
            task = asyncio.create_task(bench.begin(CHAT).run(upstream))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(cut())
    assert bench.money() == (0, 0, 0)
    assert bench.lane.tally.complete
    assert bench.lane.tally.last_generation is None
    assert [record["data"]["problem"] for record in bench.of(Kind.RELEASE)] == ["cut"]


@pytest.mark.parametrize("reached", [True, False])
def test_no_answer_costs_the_hold_only_if_the_request_may_have_arrived(bench: Bench, reached: bool) -> None:
    """A refused connection cannot have been billed; a lost answer can."""
    head, body = bench.plays(UnreachableError("gone", reached=reached))
    assert bench.money() == ((bench.held_nusd, 0, 1) if reached else (0, 0, 0))
    assert bench.lane.tally.last_generation == "provider"
    assert head is not None and head.status == 502
    assert json.loads(body)["error"]["code"] == "provider_unreachable"


@pytest.mark.parametrize("kind", [SSE, JSON])
@pytest.mark.parametrize(
    "error", [aiohttp.ClientPayloadError("cut"), TimeoutError(), ConnectionResetError()]
)
def test_an_answer_that_breaks_off_keeps_its_hold(bench: Bench, kind: str, error: Exception) -> None:
    """200 and then nothing is bounded or unknown, and the provider's trouble (section 2, settle)."""
    start = answer_json()[:30] if kind == JSON else b"data: {}\n\n"
    bench.plays(Answer(200, {"content-type": kind}, [start, error]))
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
    bench: Bench, status: int, last: str, shown: int, platform: bool
) -> None:
    """Released whole; whose trouble it is decides what the client sees."""
    head, _ = bench.plays(Answer(status, {"content-type": JSON}, [b"{}"]))
    assert bench.money() == (0, 0, 0)
    assert bench.lane.tally.last_generation == last
    assert head is not None and head.status == shown
    assert (bench.lane.tally.platform_fault is not None) == platform


def test_an_encoding_that_cannot_be_read_leaves_the_cost_unknown(bench: Bench) -> None:
    """The bytes go on with their header; what they say is not for us."""
    packed = {"content-type": JSON, "content-encoding": "br"}
    head, body = bench.plays(Answer(200, packed, [b"\x00\xff\x01"]))
    assert (body, dict(head.headers if head else [])["content-encoding"]) == (b"\x00\xff\x01", "br")
    assert bench.money() == (bench.held_nusd, 0, 1)
    assert bench.of(Kind.SETTLE)[0]["data"]["completeness"] == "unknown"


@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.BODY, Kind.SETTLE])
def test_a_full_disk_is_trouble_of_the_house_and_no_hold_stays_open(
    bench: Bench, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever cannot be written: the call ends, its hold is booked or its cost, the try is not judged."""
    write = bench.lane.record

    def full(what: Kind, *rest: Any) -> None:
        if what is kind:
            raise OSError(errno.ENOSPC, "no space left")
        write(what, *rest)

    monkeypatch.setattr(bench.lane, "record", full)
    pieces = [b": " + b"x" * BATCH_BYTES + b"\n\n", *usage_events()]
    head, broken = bench.plays_on(Answer(200, {"content-type": SSE}, pieces))
    assert bench.lane.tally.platform_fault == "relay:OSError"
    assert head is None or head.status == 502 or broken
    assert bench.lane.budget.held_nusd == 0
    assert bench.lane.budget.spent_nusd > 0
    assert bench.lane.tally.provider_failures == 0


def test_every_end_takes_the_call_off_the_lane(bench: Bench) -> None:
    """An open call would hold up the lane's end."""

    async def play() -> None:
        exchange = bench.begin(CHAT)
        answer = Answer(200, {"content-type": JSON}, [answer_json()])
        task = asyncio.create_task(exchange.run(bench.upstream(answer)))
        bench.lane.started(1, task)
        await task

    run(play())
    assert bench.lane.calls == {}
