"""Usage of OpenAI's Responses: three terminal events, usage nested in them, provider-run calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness, Reading, meter_for

EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN


def whole(body: Any) -> Reading:
    meter = meter_for(Family.OPENAI_RESPONSES, sse=False, provider="openai", cache_ttls=frozenset())
    meter.feed(json.dumps(body).encode())
    return meter.finish(clean=True)


def stream(*lines: str, clean: bool = True) -> Reading:
    meter = meter_for(Family.OPENAI_RESPONSES, sse=True, provider="openai", cache_ttls=frozenset())
    for line in lines:
        meter.feed(line.encode())
    return meter.finish(clean=clean)


def response(kind: str, **more: Any) -> str:
    body = {"model": "m", "status": kind, "output": [], "usage": None, **more}
    data = {"type": f"response.{kind}", "response": body}
    return f"event: response.{kind}\ndata: {json.dumps(data)}\n\n"


BILLED = {"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}
WORD = 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'


@pytest.mark.parametrize(
    ("kind", "more", "finish"),
    [
        ("completed", {}, "completed"),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ("failed", {"error": {"code": "server_error"}}, "failed"),
    ],
)
def test_usage_stands_in_each_of_the_three_terminal_events(
    kind: str, more: dict[str, Any], finish: str
) -> None:
    """Failed answers are billed as well; without usage nothing is known. The same for JSON."""
    expected = Buckets(input=10, cache_read=40, output=20)
    usage = {**BILLED, "input_tokens_details": {"cached_tokens": 40}}
    found = stream(response("created"), WORD, response(kind, usage=usage, **more))
    assert (found.completeness, found.buckets, found.finish) == (EXACT, expected, finish)
    assert found.provider_fault == (kind == "failed")
    bare = stream(response("created"), WORD, response(kind, **more))
    assert (bare.completeness, bare.ended) == (UNKNOWN, True)
    plain = whole({"status": kind, "error": None, "output": [{}], "usage": usage, **more})
    assert (plain.completeness, plain.buckets, plain.finish) == (EXACT, expected, finish)


def test_a_responses_stream_needs_its_terminal_event() -> None:
    """Unknown without; a report in an earlier event is a bound; event names may be missing."""
    cut = stream(response("created"), WORD)
    assert (cut.completeness, cut.provider_fault) == (UNKNOWN, True)
    early = stream(response("in_progress", usage=BILLED), WORD, clean=False)
    assert early.completeness is BOUNDED
    nameless = response("completed", usage=BILLED).partition("\n")[2]
    assert stream(nameless, clean=False).completeness is EXACT


@pytest.mark.parametrize("line", ['event: error\ndata: {"code":"x"}\n\n', 'data: {"type":"error"}\n\n'])
def test_an_error_event_of_responses(line: str) -> None:
    """In place of a terminal event."""
    found = stream(response("created"), WORD, line)
    assert (found.completeness, found.provider_fault) == (UNKNOWN, True)


def test_zero_usage_of_responses_is_not_believed() -> None:
    """Words were streamed, so that zero cannot be true."""
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    found = stream(response("created"), WORD, response("completed", usage=usage))
    assert (found.completeness, found.flags, found.provider_fault) == (UNKNOWN, ("zero_usage",), True)


def test_provider_run_calls_of_responses_are_counted_once() -> None:
    """In their own event and in the terminal one; their fee is not in the usage, so it is a bound."""
    item = {"type": "web_search_call", "id": "ws_1"}
    done = {"type": "response.output_item.done", "item": item}
    event = f"event: response.output_item.done\ndata: {json.dumps(done)}\n\n"
    found = stream(event, response("completed", usage=BILLED, output=[item]))
    assert (found.completeness, found.flags) == (BOUNDED, ("tool:web_search",))
    assert found.buckets == Buckets(input=50, output=20, calls={"web_search": 1})
