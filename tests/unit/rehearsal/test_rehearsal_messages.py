"""Anthropic Messages: what is read from a request, and the shape of every reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.rehearsal import messages
from workers.rehearsal.asked import Asked, Tool
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, tokens

BODY: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "do it"}]}


def _events(reply: Reply, request: Asked) -> list[Any]:
    """The events of a stream; the SSE name is the event's type."""
    events = []
    for frame in messages.frames(reply, request):
        name, data = frame.decode().removesuffix("\n\n").split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_a_request_is_read() -> None:
    """System blocks, text blocks, tools with a schema, Anthropic's own bash; no other tools."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    found = messages.read(
        {
            **BODY,
            "system": [{"type": "text", "text": "rules"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "do it"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
            ],
            "tools": [
                {"name": "Bash", "input_schema": schema},
                {"type": "bash_20250124", "name": "bash"},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "stream": True,
        }
    )
    assert (found.turns, found.task, found.opening) == (1, "do it", "rules\ndo it")
    assert (found.output_limit, found.stream) == (50, True)
    assert found.tools == (Tool("Bash", schema), Tool("bash"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"model": ""}, "model: a model name is required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"tools": "bash"}, "tools: a list of objects is expected"),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], message: str) -> None:
    """As a provider refuses it, with a sentence that names the field."""
    with pytest.raises(CallError) as caught:
        messages.read({**BODY, **change})
    assert caught.value.message == message


def test_tokens_are_counted_as_they_would_be_charged() -> None:
    """`count_tokens` needs no limit and gives what a call without scripted usage reports as input."""
    without = {key: value for key, value in BODY.items() if key != "max_tokens"}
    assert messages.count_tokens(without) == {"input_tokens": tokens(messages.read(BODY).prompt_bytes)}


def test_the_json_reply_has_the_stated_shape(make_reply: Callable[..., Reply]) -> None:
    """Cached tokens stand beside the input tokens, not inside; the tool's input is an object."""
    found = messages.whole(make_reply())
    assert (found["type"], found["role"], found["model"]) == ("message", "assistant", "model-x")
    assert found["id"].startswith("msg_01") and found["stop_sequence"] is None
    text, call = found["content"]
    assert text == {"type": "text", "text": "I will write the file: größer."}
    assert call["type"] == "tool_use" and call["id"].startswith("toolu_01")
    assert (call["name"], call["input"]) == ("bash", {"command": "echo hello > hello.txt"})
    usage = found["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (60, 40, 20)
    assert usage["cache_creation_input_tokens"] == sum(usage["cache_creation"].values()) == 0


def test_the_stream_adds_up_to_the_json_reply(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Start with an empty message, blocks, a ping in the first, cumulative usage in the delta, stop."""
    reply = make_reply()
    events = _events(reply, make_asked())
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    started, ended = events[0]["message"], events[-2]
    assert (started["content"], started["stop_reason"], started["usage"]["output_tokens"]) == ([], None, 1)
    assert ended["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert ended["usage"] == {
        "input_tokens": 60,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 40,
        "output_tokens": 20,
    }
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    text = "".join(delta.get("text", "") for delta in deltas)
    arguments = "".join(delta.get("partial_json", "") for delta in deltas)
    assert [text, json.loads(arguments)] == [reply.text, {"command": "echo hello > hello.txt"}]
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block.get("text", block.get("input")) for block in blocks] == ["", {}]


@pytest.mark.parametrize(("finish", "reason"), [(Finish.STOP, "end_turn"), (Finish.LENGTH, "max_tokens")])
def test_stop_reasons(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked], finish: Finish, reason: str
) -> None:
    """The same in JSON and in the stream."""
    reply = make_reply(call=None, finish=finish)
    assert messages.whole(reply)["stop_reason"] == reason
    assert _events(reply, make_asked())[-2]["delta"]["stop_reason"] == reason


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_have_the_types_of_anthropic(status: int, kind: str) -> None:
    """By status; the wait goes into a header."""
    found = messages.refused(status, "no", 3)
    assert found.body == {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": None}
    assert found.headers == {"retry-after": "3"} and messages.refused(status, "no", None).headers == {}
