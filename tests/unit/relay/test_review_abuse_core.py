"""Pure decisions that a hostile agent would like to turn: whose fault it was, what was asked, what fits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.relay.errors import RefusedError
from workers.relay.intake import Intake
from workers.relay.outcome import Failure, judge
from workers.relay.wire.body import MOST_ITEMS, parse_body
from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.family import Family
from workers.relay.wire.request import inspect
from workers.relay.wire.usage import Completeness, meter_for

CHAT, RESPONSES = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
HELLO = [{"role": "user", "content": "hello"}]
OURS = Failure("platform", shown=False)
AGENTS = Failure(None, shown=True)


def error(**fields: Any) -> bytes:
    return json.dumps({"error": {"message": "m", **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error(code="invalid_api_key")),
        (429, error(type="insufficient_quota", code="insufficient_quota")),
        (400, error(code="billing_hard_limit_reached")),
        (400, error(code=400, status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}])),
        (400, b"[" + error(code=400, details=[{}, {"reason": "API_KEY_SERVICE_BLOCKED"}]) + b"]"),
        (400, error(type="invalid_request_error", message="Your credit balance is too low to access")),
    ],
)
def test_trouble_with_our_account_is_known_by_its_code(status: int, body: bytes) -> None:
    """Where providers put it, and even after good answers: an account can run dry."""
    assert judge(status, body) == judge(status, body, served=True) == OURS


@pytest.mark.parametrize(
    "body",
    [
        error(message="tool_choice: 'invalid_api_key' is not one of 'auto'"),
        error(param="API_KEY_INVALID", code="invalid_value"),
        error(message="unexpected text 'Your credit balance is too low'"),
        error(details=["API_KEY_INVALID", {"fieldViolations": [{"reason": "API_KEY_INVALID"}]}]),
        b'{"error": "insufficient_quota"}',
        b"insufficient_quota",
        b"[]",
        b"[" * 100_000,
    ],
)
def test_words_in_a_message_are_the_agents(body: bytes) -> None:
    """A provider repeats what it was sent."""
    assert judge(400, body) == AGENTS


@pytest.mark.parametrize("status", [403, 404, 409])
def test_a_refusal_after_good_answers_is_about_the_request(status: int) -> None:
    """Forbidden content, a route that the model does not have: no outage, and no fault of the house."""
    assert judge(status, b"{}", served=True) == AGENTS
    assert judge(status, b"{}") != AGENTS


@pytest.mark.parametrize("status", [401, 402, 408, 429, 500, 503, 529])
def test_other_failures_are_judged_alike_at_any_time(status: int) -> None:
    """A key can be withdrawn, and a provider break down, in the middle of a try."""
    assert judge(status, b"{}", served=True) == judge(status, b"{}")


@pytest.mark.parametrize(
    "name",
    [
        *("\u017ftream", "max_to\u212aens", "FALLBACKS", "Web_Search_Options", "Container"),
        *("Plugins", "Provider", "API_BASE", "Extra_Body", "\u017fearch_parameters"),
    ],
)
def test_a_deciding_field_in_other_letters_is_refused(name: str) -> None:
    """Some decoders take the long s and the Kelvin sign for letters."""
    with pytest.raises(BadRequestError, match="spelling"):
        inspect(CHAT, {"model": "m", name: "x"})


@pytest.mark.parametrize("family", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("stream", [1, "true", [True], {}])
def test_a_stream_is_asked_for_in_one_way(family: Family, stream: Any) -> None:
    """A lenient provider would stream without the usage that we would have asked for: cost unknown."""
    with pytest.raises(BadRequestError, match="stream"):
        inspect(family, {"stream": stream})


def test_limits_beyond_any_model_are_refused() -> None:
    """Numbers of thousands of digits end neither in a transcript nor in a message."""
    for value in (10**10, 10**4000):
        with pytest.raises(BadRequestError, match="max_tokens"):
            inspect(CHAT, {"max_tokens": value})


def test_a_body_of_too_many_items_is_not_parsed() -> None:
    """60 MiB of empty lists took 1.7 GB of the memory that all lanes share."""
    raw = b'{"a":[' + b"[]," * MOST_ITEMS + b"[]]}"
    with pytest.raises(BadRequestError) as caught:
        parse_body(raw)
    assert caught.value.code == "body_too_large"
    assert parse_body(b'{"a":"' + b"x" * (4 << 20) + b'"}')


def test_open_requests_share_the_room_of_their_lane() -> None:
    """What does not fit is refused, and fits again once a call has ended."""

    async def run() -> None:
        intake = Intake(limit_bytes=100)
        ended = asyncio.Event()

        async def call() -> None:
            await ended.wait()

        with intake.load() as first:
            first.add(60)
            task = asyncio.create_task(call())
            first.keep_for(task)
        with pytest.raises(RefusedError) as caught, intake.load() as second:
            second.add(30)
            second.add(20)
        assert caught.value.code == "rate_limited"
        assert intake.taken_bytes == 60
        ended.set()
        await task
        await asyncio.sleep(0)
        assert intake.taken_bytes == 0

    asyncio.run(run())


def test_the_limit_that_is_held_for_is_the_one_that_binds(desk: Callable[..., Any]) -> None:
    """A provider that reads the older field only is given it; 0 is no limit for some, so it is replaced."""
    lane = desk()
    sent = json.loads(lane.asks(CHAT, {"model": "grok", "max_completion_tokens": 50, "messages": HELLO}).sent)
    assert sent["max_tokens"] == sent["max_completion_tokens"] == 50
    zero = lane.asks(CHAT, {"model": "plain", "max_tokens": 0, "messages": HELLO})
    assert json.loads(zero.sent)["max_tokens"] == zero.output_limit == 4096
    both = {"model": "plain", "max_tokens": 0, "max_completion_tokens": 70, "messages": HELLO}
    found = json.loads(lane.asks(CHAT, both).sent)
    assert (found["max_tokens"], found["max_completion_tokens"]) == (70, 70)
    one = lane.asks(CHAT, {"model": "plain", "max_tokens": 50, "messages": HELLO})
    assert "max_completion_tokens" not in json.loads(one.sent)


@pytest.mark.parametrize("provider", ["x-ai", "xai"])
def test_reasoning_without_a_total_is_in_doubt_under_either_name(provider: str) -> None:
    """The provider's name in the accounts is `x-ai`; its usage is a bound only where no total decides."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    choice = {"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}
    meter = meter_for(CHAT, sse=False, provider=provider, cache_ttls=frozenset())
    meter.feed(json.dumps({"choices": [choice], "usage": usage}).encode())
    assert meter.finish(clean=True).completeness is Completeness.BOUNDED
