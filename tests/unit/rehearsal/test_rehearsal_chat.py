"""OpenAI chat completions: what is read from a request, and the shape of every reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.rehearsal import chat
from workers.rehearsal.asked import Asked, Tool
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "do it"}]}


def _chunks(reply: Reply, request: Asked) -> list[Any]:
    """The stream's chunks; every frame is one data event, the last one `[DONE]`."""
    frames = chat.frames(reply, request)
    assert frames[-1] == b"data: [DONE]\n\n"
    assert all(frame.startswith(b"data: ") and frame.endswith(b"\n\n") for frame in frames)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]


def test_a_request_is_read() -> None:
    """Roles, text parts, tools with schemas, the larger field of limits, and the usage option."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    messages = [
        {"role": "developer", "content": "rules"},
        {"role": "user", "content": [{"type": "text", "text": "do"}, {"type": "text", "text": "it"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "x", "content": "out"},
    ]
    tools = [
        {"type": "function", "function": {"name": "bash", "parameters": schema}},
        {"type": "function", "function": {"name": "finish"}},
        {"type": "custom", "custom": {"name": "patch"}},
    ]
    found = chat.read(
        {
            "model": "m",
            "messages": messages,
            "tools": tools,
            "max_tokens": 7,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    assert (found.model, found.stream, found.usage_chunk, found.turns) == ("m", True, True, 1)
    assert (found.task, found.opening, found.output_limit) == ("do\nit", "rules\ndo\nit", 7)
    assert found.tools == (Tool("bash", schema), Tool("finish"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "model: a model name is required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": "hi"}, "messages: a list of objects is expected"),
        ({"messages": ["hi"]}, "messages: a list of objects is expected"),
        ({"tools": {}}, "tools: a list of objects is expected"),
        ({"n": 2}, "n: the scripted provider gives one choice"),
        ({"max_tokens": 0}, "max_tokens: a whole number of at least 1 is expected"),
        ({"max_completion_tokens": True}, "max_completion_tokens: a whole number of at least 1 is expected"),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], message: str) -> None:
    """As a provider refuses it, with a sentence that names the field."""
    with pytest.raises(CallError) as caught:
        chat.read({**BODY, **change})
    assert caught.value.message == message and caught.value.status == 400


def test_the_json_reply_has_the_stated_shape(make_reply: Callable[..., Reply]) -> None:
    """Ids by prefix, model echoed, arguments as text, cached and reasoning tokens as subsets."""
    found = chat.whole(make_reply())
    message = found["choices"][0]["message"]
    call = message["tool_calls"][0]
    assert found["id"].startswith("chatcmpl-") and call["id"].startswith("call_")
    assert (found["object"], found["created"], found["model"]) == (
        "chat.completion",
        1_800_000_000,
        "model-x",
    )
    assert found["system_fingerprint"] is None and message["content"] == "I will write the file: größer."
    assert call["type"] == "function" and call["function"]["name"] == "bash"
    assert json.loads(call["function"]["arguments"]) == {"command": "echo hello > hello.txt"}
    usage = found["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (100, 20, 120)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 40
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 5


@pytest.mark.parametrize(
    ("finish", "call", "reason"),
    [(Finish.STOP, None, "stop"), (Finish.LENGTH, None, "length"), (Finish.TOOL, ..., "tool_calls")],
)
def test_finish_reasons(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked], finish: Finish, call: Any, reason: str
) -> None:
    """The same in JSON and in the last chunk of the stream; without a call there is no `tool_calls`."""
    reply = make_reply(finish=finish, **({} if call is ... else {"call": call}))
    choice = chat.whole(reply)["choices"][0]
    assert choice["finish_reason"] == reason
    assert ("tool_calls" in choice["message"]) == (call is ...)
    last = _chunks(reply, make_asked())[-1]["choices"][0]
    assert (last["finish_reason"], last["delta"]) == (reason, {})


def test_the_stream_adds_up_to_the_json_reply(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Text and arguments come in several parts; id and name of the call come once, in its first part."""
    reply = make_reply()
    deltas = [chunk["choices"][0]["delta"] for chunk in _chunks(reply, make_asked())]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    texts = [delta["content"] for delta in deltas[1:] if "content" in delta]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert len(texts) > 1 and "".join(texts) == reply.text
    assert [key for key in calls[0] if key in ("id", "type")] == ["id", "type"]
    assert all(set(call) == {"index", "function"} for call in calls[1:]) and len(calls) > 2
    joined = "".join(call["function"]["arguments"] for call in calls)
    assert joined == chat.whole(reply)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]


def test_usage_is_streamed_only_when_asked_for(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Asked: null in every chunk and one more chunk without choices. Not asked: no chunk knows the key."""
    asked_for = _chunks(make_reply(), make_asked(usage_chunk=True))
    assert all(chunk["usage"] is None for chunk in asked_for[:-1])
    assert asked_for[-1]["choices"] == [] and asked_for[-1]["usage"]["total_tokens"] == 120
    without = _chunks(make_reply(), make_asked())
    assert len(without) == len(asked_for) - 1 and not any("usage" in chunk for chunk in without)


def test_a_call_without_words_has_null_content(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """As OpenAI sends it, in JSON and in the first delta."""
    reply = make_reply(text="")
    assert chat.whole(reply)["choices"][0]["message"]["content"] is None
    assert _chunks(reply, make_asked())[0]["choices"][0]["delta"]["content"] is None
