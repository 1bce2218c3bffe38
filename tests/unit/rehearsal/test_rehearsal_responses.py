"""OpenAI Responses: what is read from a request, and the shape of every reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.rehearsal import responses
from workers.rehearsal.asked import Asked, Tool
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, ToolCall, ToolKind

LOCAL = ToolCall("local_shell", {"command": ["bash", "-lc", "ls"]}, ToolKind.LOCAL_SHELL)
CODE = ToolCall("exec", {"input": "text(await tools.exec_command({}));"}, ToolKind.CODE, "functions")


def _events(reply: Reply, request: Asked) -> list[Any]:
    """The events of a stream; the SSE name is the event's type, and numbers count from 0."""
    events = []
    for number, frame in enumerate(responses.frames(reply, request)):
        name, data = frame.decode().removesuffix("\n\n").split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}" and events[-1]["sequence_number"] == number
    return events


def test_a_request_is_read() -> None:
    """Instructions, items of several types, flat tools, and the limit; one reply's items are one turn."""
    found = responses.read(
        {
            "model": "m",
            "instructions": "rules",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "do it"}]},
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": []},
                {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ],
            "tools": [
                {"type": "function", "name": "shell", "parameters": {"type": "object"}},
                {"type": "web_search"},
            ],
            "max_output_tokens": 9,
            "stream": True,
        }
    )
    assert (found.turns, found.task, found.opening) == (1, "do it", "rules\ndo it")
    assert (found.output_limit, found.stream) == (9, True)
    assert found.tools == (Tool("shell", {"type": "object"}),)


def test_a_text_is_an_input() -> None:
    """`input` may be a bare text."""
    assert responses.read({"model": "m", "input": "do it"}).task == "do it"


def test_codex_offers_its_tools_in_the_input_in_a_namespace() -> None:
    """The custom tool is its code mode only if the description says how the shell is called in it."""
    tools = [
        {"type": "custom", "name": "exec", "description": "JavaScript; await tools.exec_command(...)"},
        {"type": "custom", "name": "apply_patch", "description": "a patch"},
        {"type": "function", "name": "wait", "parameters": {}},
    ]
    found = responses.read(
        {
            "model": "m",
            "input": [
                {
                    "type": "additional_tools",
                    "tools": [{"type": "namespace", "name": "functions", "tools": tools}],
                },
                {"role": "user", "content": "do it"},
            ],
            "tools": [{"type": "local_shell"}],
        }
    )
    assert found.tools == (
        Tool("local_shell", {}, ToolKind.LOCAL_SHELL),
        Tool("exec", {}, ToolKind.CODE, "functions"),
        Tool("wait", {}, namespace="functions"),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": []}, "input: a text or at least one item is required"),
        ({"input": 7}, "input: a list of objects is expected"),
        ({"previous_response_id": "resp_1"}, "previous_response_id: no such response is stored"),
        ({"max_output_tokens": "9"}, "max_output_tokens: a whole number of at least 1 is expected"),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], message: str) -> None:
    """As a provider refuses it, with a sentence that names the field."""
    with pytest.raises(CallError) as caught:
        responses.read({"model": "m", "input": "do it", **change})
    assert caught.value.message == message


def test_the_json_reply_has_the_stated_shape(make_reply: Callable[..., Reply]) -> None:
    """Two output items, ids by prefix, usage with details."""
    found = responses.whole(make_reply())
    message, call = found["output"]
    assert (found["object"], found["status"], found["error"]) == ("response", "completed", None)
    assert found["id"].startswith("resp_") and found["incomplete_details"] is None
    assert message["id"].startswith("msg_") and message["content"][0]["type"] == "output_text"
    assert call["id"].startswith("fc_") and call["call_id"].startswith("call_")
    assert json.loads(call["arguments"]) == {"command": "echo hello > hello.txt"}
    assert found["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }


def test_the_stream_has_the_documented_order(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Usage is null until the last event, which holds the JSON reply; parts add up to the whole."""
    reply = make_reply()
    events = _events(reply, make_asked())
    order = [event["type"].removeprefix("response.") for event in events]
    without_repeats = [name for name, before in zip(order, ["", *order], strict=False) if name != before]
    assert without_repeats == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert events[0]["response"]["usage"] is None and events[0]["response"]["output"] == []
    assert events[-1]["response"] == responses.whole(reply)
    texts = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    parts = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert len(texts) > 1 and "".join(texts) == reply.text
    assert reply.call is not None and "".join(parts) == reply.call.arguments_json
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == responses.whole(reply)["output"]
    assert [event["output_index"] for event in events if "output_index" in event][-1] == 1


def test_a_reply_cut_by_length_is_incomplete(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """The terminal event is `response.incomplete`, with the reason and the usage."""
    reply = make_reply(call=None, finish=Finish.LENGTH)
    last = _events(reply, make_asked())[-1]
    assert last["type"] == "response.incomplete" and last["response"]["status"] == "incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["usage"]["total_tokens"] == 120


def test_the_local_shell_is_called_by_an_action(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Without words it is the first and only item, and nothing of it is streamed in parts."""
    events = _events(make_reply(call=LOCAL, text=""), make_asked())
    item = events[-1]["response"]["output"][0]
    assert item["type"] == "local_shell_call" and item["action"]["command"] == ["bash", "-lc", "ls"]
    assert [event["type"] for event in events[2:4]] == [
        "response.output_item.added",
        "response.output_item.done",
    ]
    assert all(event["output_index"] == 0 for event in events[2:4])


def test_codex_code_is_streamed_as_input(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """A `custom_tool_call` in the namespace of its tool; the parts add up to the program."""
    events = _events(make_reply(call=CODE), make_asked())
    item = events[-1]["response"]["output"][1]
    assert (item["type"], item["name"], item["namespace"]) == ("custom_tool_call", "exec", "functions")
    parts = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert len(parts) > 1 and "".join(parts) == item["input"] == CODE.arguments["input"]
