"""A conversation of two turns with one tool call, in every family, streamed and not: one trajectory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from workers.relay.trajectory.requests import read_request
from workers.relay.trajectory.tool_calls import tool_calls
from workers.relay.wire.family import Family

if TYPE_CHECKING:
    from tests.unit.relay.trajectory.conftest import Lane

TASK = "Rename the helper."
SYSTEM = "You are an agent."
ARGUMENTS = {"command": "ls"}
OUTPUT = "a.py"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


def lines(*events: Mapping[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


@dataclass(frozen=True)
class Talk:
    """Both requests and both answers as one client and provider would put them."""

    family: Family
    first: dict[str, Any]
    asked: bytes
    second: dict[str, Any]
    said: bytes
    call_id: str = "c1"


def chat(streamed: bool) -> Talk:
    system, user = {"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}
    function = {"name": "bash", "arguments": json.dumps(ARGUMENTS)}
    own = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
    tools = [{"type": "function", "function": {"name": "bash", "description": "d", "parameters": SCHEMA}}]
    first = {"messages": [system, user], "tools": tools}
    # The second time the client writes the task as a list of parts.
    parts = {"role": "user", "content": [{"type": "text", "text": TASK}]}
    result = {"role": "tool", "tool_call_id": "c1", "content": OUTPUT}
    second = {"messages": [system, parts, own, result], "tools": tools}
    key = "delta" if streamed else "message"
    calls = [{"index": 0, "id": "c1", "function": function}]
    asked = {"choices": [{key: {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    said = {"choices": [{key: {"content": "Done."}, "finish_reason": "stop"}]}
    return Talk(Family.OPENAI_CHAT, first, shown(streamed, asked), second, shown(streamed, said))


def shown(streamed: bool, document: Mapping[str, Any]) -> bytes:
    return lines(document) if streamed else json.dumps(document).encode()


def responses(streamed: bool) -> Talk:
    user = {"role": "user", "content": [{"type": "input_text", "text": TASK}]}
    call = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": json.dumps(ARGUMENTS)}
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    result = {"type": "function_call_output", "call_id": "c1", "output": OUTPUT}
    tools = [{"type": "function", "name": "bash", "description": "d", "parameters": SCHEMA}]
    first = {"instructions": SYSTEM, "input": [user], "tools": tools}
    second = {**first, "input": [user, thought, call, result]}
    message = {"type": "message", "content": [{"type": "output_text", "text": "Done."}]}
    asked, said = ({"status": "completed", "output": output} for output in ([thought, call], [message]))
    if not streamed:
        raw = json.dumps(asked).encode(), json.dumps(said).encode()
    else:
        raw = (
            lines(
                {"type": "response.output_item.done", "output_index": 0, "item": thought},
                {"type": "response.output_item.done", "output_index": 1, "item": call},
                {"type": "response.completed", "response": {**asked, "output": []}},
            ),
            lines({"type": "response.completed", "response": said}),
        )
    return Talk(Family.OPENAI_RESPONSES, first, raw[0], second, raw[1])


def anthropic(streamed: bool) -> Talk:
    marker = {"cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": ARGUMENTS}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": OUTPUT}]}
    tools = [{"name": "bash", "description": "d", "input_schema": SCHEMA}]
    system = [{"type": "text", "text": SYSTEM, **marker}]
    task = {"type": "text", "text": TASK}
    user = {"role": "user", "content": [{**task, **marker}]}
    first = {"system": system, "messages": [user], "tools": tools}
    # The cache marker has moved to the result: that makes no other message of the task.
    second = {
        **first,
        "messages": [
            {"role": "user", "content": [task]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{**result, **marker}]},
        ],
    }
    said = [{"type": "text", "text": "Done."}]
    if not streamed:
        raw = [json.dumps({"type": "message", "content": content}).encode() for content in ([call], said)]
    else:
        half = json.dumps(ARGUMENTS)
        pieces = [{"type": "input_json_delta", "partial_json": part} for part in (half[:5], half[5:])]
        raw = [
            lines(
                {"type": "message_start", "message": {"content": []}},
                {"type": "content_block_start", "index": 0, "content_block": {**call, "input": {}}},
                *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
            ),
            lines({"type": "content_block_start", "index": 0, "content_block": said[0]}),
        ]
    return Talk(Family.ANTHROPIC, first, raw[0], second, raw[1])


def google(streamed: bool, array: bool = False) -> Talk:
    called = {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": ARGUMENTS}}]}
    answer = {"functionResponse": {"name": "bash", "response": {"output": OUTPUT}}}
    tools = [{"functionDeclarations": [{"name": "bash", "description": "d", "parameters": SCHEMA}]}]
    user = {"role": "user", "parts": [{"text": TASK}]}
    first = {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": [user], "tools": tools}
    second = {**first, "contents": [user, called, {"role": "user", "parts": [answer]}]}
    asked = {"candidates": [{"content": called, "finishReason": "STOP"}]}
    said = {"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]}
    raw = [json.dumps([one]).encode() if array else shown(streamed, one) for one in (asked, said)]
    return Talk(Family.GOOGLE, first, raw[0], second, raw[1], call_id="call-1-0")


TALKS = [
    pytest.param(chat(False), id="chat"),
    pytest.param(chat(True), id="chat-stream"),
    pytest.param(responses(False), id="responses"),
    pytest.param(responses(True), id="responses-stream"),
    pytest.param(anthropic(False), id="anthropic"),
    pytest.param(anthropic(True), id="anthropic-stream"),
    pytest.param(google(False), id="google"),
    pytest.param(google(True), id="google-stream"),
    pytest.param(google(False, array=True), id="google-array"),
]


def output_of(family: Family) -> str:
    return json.dumps({"output": OUTPUT}, separators=(",", ":")) if family is Family.GOOGLE else OUTPUT


@pytest.mark.parametrize("talk", TALKS)
def test_two_turns_make_four_steps(talk: Talk, make_lane: Callable[[Family], Lane]) -> None:
    """System, user, the call with its result, the answer: nothing twice, although it was all sent twice."""
    lane = make_lane(talk.family)
    lane.turn(talk.first, talk.asked[:20], talk.asked[20:])
    lane.turn(talk.second, talk.said)
    found = lane.trajectory()
    assert "subagent_trajectories" not in found
    assert [(step["source"], step["message"]) for step in found["steps"]] == [
        ("system", SYSTEM),
        ("user", TASK),
        ("agent", ""),
        ("agent", "Done."),
    ]
    called = found["steps"][2]
    call = {"tool_call_id": talk.call_id, "function_name": "bash", "arguments": ARGUMENTS}
    assert called["tool_calls"] == [call]
    result = {"content": output_of(talk.family), "source_call_id": talk.call_id}
    assert called["observation"] == {"results": [result]}
    assert [step["extra"]["call"] for step in found["steps"]] == [1, 1, 1, 2]


@pytest.mark.parametrize("talk", TALKS)
def test_tools_are_listed_in_one_shape(talk: Talk, make_lane: Callable[[Family], Lane]) -> None:
    """ATIF wants function tools as OpenAI writes them."""
    lane = make_lane(talk.family)
    lane.turn(talk.first, talk.asked)
    function = {"name": "bash", "description": "d", "parameters": SCHEMA}
    assert lane.trajectory()["agent"]["tool_definitions"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize("talk", TALKS)
def test_the_evidence_lists_the_call_with_its_result(talk: Talk, make_lane: Callable[[Family], Lane]) -> None:
    """One entry, the same whatever the family."""
    lane = make_lane(talk.family)
    lane.turn(talk.first, talk.asked)
    lane.turn(talk.second, talk.said)
    (entry,) = tool_calls(lane.records)
    assert (entry["call"], entry["thread"], entry["id"], entry["name"]) == (1, 1, talk.call_id, "bash")
    assert json.loads(entry["arguments"]) == ARGUMENTS
    assert entry["result"]["head"] == output_of(talk.family)


@pytest.mark.parametrize("talk", TALKS)
def test_a_body_that_cannot_be_read_holds_no_conversation(talk: Talk) -> None:
    """Cut in the middle, or with two values for one key."""
    raw = json.dumps(talk.first).encode()
    assert read_request(talk.family, raw[:-5]) is None
    assert read_request(talk.family, b'{"messages":[],' + raw[1:-1] + b',"messages":[]}') is None
