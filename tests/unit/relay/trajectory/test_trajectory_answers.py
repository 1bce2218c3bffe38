"""Answers: from the bytes of every family, streamed and not, to text, reasoning and tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.trajectory.answers import read_answer
from workers.relay.trajectory.neutral import Answer, ToolCall
from workers.relay.wire.family import Family

CHAT, RESPONSES, ANTHROPIC, GOOGLE = (
    Family.OPENAI_CHAT,
    Family.OPENAI_RESPONSES,
    Family.ANTHROPIC,
    Family.GOOGLE,
)
FULL = Answer("Hello.", "Hm.", (ToolCall("c1", "bash", '{"command":"ls"}'),), "done", "m-1")


def sse(*events: dict[str, Any], end: str = "\n") -> bytes:
    """Events without names; every family says its type in the data too."""
    return "".join(f"data: {json.dumps(event)}{end}{end}" for event in events).encode()


def plain(document: object) -> bytes:
    return json.dumps(document).encode()


def chat_delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def chat_call(index: int | None, **function: str) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    ident = {"id": function.pop("id")} if "id" in function else {}
    return chat_delta(tool_calls=[{**place, **ident, "function": function}])


CHAT_EVENTS: tuple[dict[str, Any], ...] = (
    chat_delta(role="assistant", content="", reasoning_content="Hm."),
    chat_delta(content="Hel"),
    chat_delta(content="lo."),
    chat_call(0, id="c1", name="bash", arguments=""),
    chat_call(0, arguments='{"command"'),
    chat_call(0, arguments=':"ls"}'),
    chat_delta(finish="done"),
    {"choices": [], "usage": {}},
)
CHAT_OBJECT = {
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "done",
            "message": {
                "role": "assistant",
                "content": "Hello.",
                "reasoning": "Hm.",
                "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}],
            },
        }
    ],
}
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
    {"type": "function_call", "call_id": "c1", "id": "x", "name": "bash", "arguments": '{"command":"ls"}'},
]
RESPONSE = {
    "model": "m-1",
    "status": "incomplete",
    "incomplete_details": {"reason": "done"},
    "output": ITEMS,
}


def response_event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **data}


RESPONSES_EVENTS = (
    response_event("created", response={"model": "m-1", "status": "in_progress", "output": []}),
    response_event("output_item.added", output_index=0, item={"type": "reasoning"}),
    response_event("reasoning_summary_text.delta", output_index=0, delta="Hm."),
    response_event("output_item.added", output_index=1, item={"type": "message", "content": []}),
    response_event("output_text.delta", output_index=1, delta="Hel"),
    response_event("output_text.delta", output_index=1, delta="lo."),
    response_event("output_item.added", output_index=2, item={**ITEMS[2], "arguments": ""}),
    response_event("function_call_arguments.delta", output_index=2, delta='{"command"'),
    response_event("function_call_arguments.delta", output_index=2, delta=':"ls"}'),
    response_event("output_item.done", output_index=2, item=ITEMS[2]),
)
BLOCKS = [
    {"type": "thinking", "thinking": "Hm."},
    {"type": "text", "text": "Hello."},
    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
]
MESSAGE = {"type": "message", "model": "m-1", "content": BLOCKS, "stop_reason": "done"}


def block_delta(index: int, **delta: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


ANTHROPIC_EVENTS = (
    {"type": "message_start", "message": {"model": "m-1", "content": [], "stop_reason": None}},
    block_start(0, type="thinking", thinking=""),
    {"type": "ping"},
    block_delta(0, thinking="Hm."),
    block_delta(0, signature="c2ln"),
    block_start(1, type="text", text=""),
    block_delta(1, text="Hel"),
    block_delta(1, text="lo."),
    block_start(2, type="tool_use", id="c1", name="bash", input={}),
    block_delta(2, partial_json='{"command"'),
    block_delta(2, partial_json=':"ls"}'),
    {"type": "message_delta", "delta": {"stop_reason": "done"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
)


def google(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [{**candidate, "finishReason": finish}], "modelVersion": "m-1"}


GOOGLE_CALL = {"functionCall": {"id": "c1", "name": "bash", "args": {"command": "ls"}}}
GOOGLE_EVENTS = (
    google({"text": "Hm.", "thought": True}),
    google({"text": "Hel"}),
    google({"text": "lo."}, GOOGLE_CALL),
    google({"text": ""}, finish="done"),
)
GOOGLE_OBJECT = google({"text": "Hm.", "thought": True}, {"text": "Hello."}, GOOGLE_CALL, finish="done")

WHOLE = [
    pytest.param(CHAT, plain(CHAT_OBJECT), id="chat"),
    pytest.param(CHAT, sse(*CHAT_EVENTS) + b"data: [DONE]\n\n", id="chat-stream"),
    pytest.param(RESPONSES, plain(RESPONSE), id="responses"),
    pytest.param(
        RESPONSES,
        sse(*RESPONSES_EVENTS, response_event("incomplete", response=RESPONSE)),
        id="responses-stream",
    ),
    pytest.param(ANTHROPIC, plain(MESSAGE), id="anthropic"),
    pytest.param(ANTHROPIC, sse(*ANTHROPIC_EVENTS), id="anthropic-stream"),
    pytest.param(GOOGLE, plain(GOOGLE_OBJECT), id="google"),
    pytest.param(GOOGLE, sse(*GOOGLE_EVENTS, end="\r\n"), id="google-stream"),
    pytest.param(GOOGLE, plain(list(GOOGLE_EVENTS)), id="google-array"),
]


@pytest.mark.parametrize(("family", "raw"), WHOLE)
def test_every_form_of_an_answer_reads_the_same(family: Family, raw: bytes) -> None:
    """Text, reasoning, calls, finish and model do not depend on the family nor on streaming."""
    assert read_answer(family, raw) == FULL


def test_a_responses_stream_without_its_end_is_put_together_from_its_events() -> None:
    """The finished response is not needed; only its status is missing then."""
    found = read_answer(RESPONSES, sse(*RESPONSES_EVENTS))
    assert (found.text, found.reasoning, found.tool_calls) == (FULL.text, FULL.reasoning, FULL.tool_calls)
    assert found.finish is None


@pytest.mark.parametrize(
    ("family", "events", "kept", "arguments"),
    [
        (CHAT, CHAT_EVENTS, 5, '{"command"'),
        (RESPONSES, RESPONSES_EVENTS, 8, '{"command"'),
        (ANTHROPIC, ANTHROPIC_EVENTS, 10, '{"command"'),
    ],
    ids=["chat", "responses", "anthropic"],
)
def test_a_cut_stream_gives_what_was_there(
    family: Family, events: tuple[dict[str, Any], ...], kept: int, arguments: str
) -> None:
    """Half of a call's arguments stay half; the event that was torn is not there."""
    raw = sse(*events[:kept]) + sse(events[kept])[:-9]
    found = read_answer(family, raw)
    assert (found.text, found.tool_calls) == ("Hello.", (ToolCall("c1", "bash", arguments),))
    assert found.finish is None


def test_a_cut_array_gives_its_whole_elements() -> None:
    """Google's stream without events, cut inside its third element."""
    raw = plain(list(GOOGLE_EVENTS))
    found = read_answer(GOOGLE, raw[: raw.index(b"lo.") + 2])
    assert (found.text, found.reasoning) == ("Hel", "Hm.")


def test_a_last_event_without_its_blank_line_counts_when_it_is_whole() -> None:
    """The connection may end right behind the last data."""
    assert read_answer(CHAT, sse(chat_delta(content="yes"))[:-2]).text == "yes"


def test_chat_calls_without_an_index_are_told_apart_by_id_and_name() -> None:
    """Some providers send whole calls without index, others repeat the id in every piece."""
    raw = sse(
        chat_call(None, id="a", name="one", arguments="{"),
        chat_call(None, id="a", arguments="}"),
        chat_call(None, name="two", arguments="{}"),
        chat_call(None, arguments=" "),
    )
    assert read_answer(CHAT, raw).tool_calls == (ToolCall("a", "one", "{}"), ToolCall("", "two", "{} "))


def test_parallel_calls_are_assembled_by_index_however_their_pieces_are_mixed() -> None:
    """Pieces of two calls may alternate."""
    raw = sse(
        chat_call(0, id="a", name="one", arguments="1"),
        chat_call(1, id="b", name="two", arguments="2"),
        chat_call(0, arguments="1"),
        chat_call(1, arguments="2"),
    )
    assert read_answer(CHAT, raw).tool_calls == (ToolCall("a", "one", "11"), ToolCall("b", "two", "22"))


def test_only_the_first_of_several_choices_is_read() -> None:
    """The others were not what the conversation went on with, as far as anybody knows."""
    choices = [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]
    assert read_answer(CHAT, plain({"choices": choices})).text == "a"


def test_older_and_rarer_forms_of_chat() -> None:
    """A legacy function call, a custom call with free text, parts instead of a string, a refusal."""
    old = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert read_answer(CHAT, plain({"choices": [{"message": old}]})).tool_calls == (ToolCall("", "f", "{}"),)
    custom = {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** a"}}]}
    found = read_answer(CHAT, plain({"choices": [{"message": custom}]}))
    assert found.tool_calls == (ToolCall("c", "patch", "*** a"),)
    parts = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert read_answer(CHAT, plain({"choices": [{"message": parts}]})).text == "a\nb"
    assert read_answer(CHAT, plain({"choices": [{"message": {"refusal": "no"}}]})).text == "no"


def test_responses_calls_of_every_kind_have_a_name() -> None:
    """A custom tool has free text, a local shell its action, one of the provider its kind as name."""
    output = [
        {"type": "custom_tool_call", "call_id": "1", "name": "apply_patch", "input": "*** a"},
        {"type": "local_shell_call", "call_id": "2", "action": {"command": ["ls"]}},
        {"type": "web_search_call", "id": "3", "status": "completed"},
        {"type": "function_call", "call_id": "4", "namespace": "n", "name": "f", "arguments": "{}"},
    ]
    assert read_answer(RESPONSES, plain({"output": output})).tool_calls == (
        ToolCall("1", "apply_patch", "*** a"),
        ToolCall("2", "local_shell", '{"command":["ls"]}'),
        ToolCall("3", "web_search", ""),
        ToolCall("4", "n.f", "{}"),
    )


def test_anthropic_deltas_without_their_start_still_give_text() -> None:
    """Gateways leave out the start of a block (case an-sse-start-delta)."""
    assert read_answer(ANTHROPIC, sse(block_delta(0, text="ok"))).text == "ok"


def test_halves_of_a_surrogate_pair_in_two_events_become_one_character() -> None:
    """A half alone cannot be written to any file and becomes the replacement character."""
    raw = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    other = b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n'
    assert read_answer(CHAT, raw + other).text == "\N{GRINNING FACE}"
    assert read_answer(CHAT, raw).text == "\N{REPLACEMENT CHARACTER}"


def test_embeddings_say_nothing() -> None:
    """Numbers are no answer to anybody."""
    assert read_answer(Family.OPENAI_EMBEDDINGS, b'{"data":[{"embedding":[0.1]}]}').empty


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "index", "delta", "message", "content", "tool_calls", "function", "id"),
                    *("content_block", "response", "output", "item", "output_index", "summary", "type"),
                    *("candidates", "parts", "functionCall", "args", "text", "thought", "model", "arguments"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.sampled_from(list(Family)), st.binary(max_size=300))
def test_bytes_of_any_kind_give_an_answer(family: Family, raw: bytes) -> None:
    """Nothing a provider sends makes the reader raise."""
    assert isinstance(read_answer(family, raw), Answer)


@given(st.sampled_from(list(Family)), st.lists(JSON, max_size=4), st.booleans())
def test_json_of_any_shape_gives_an_answer(family: Family, values: list[Any], streamed: bool) -> None:
    """Nor does JSON with the right names in the wrong places."""
    raw = b"".join(b"data: " + plain(value) + b"\n\n" for value in values) if streamed else plain(values)
    found = read_answer(family, raw)
    written = found.text + (found.reasoning or "")
    assert written.encode("utf-8").decode("utf-8") == written


@pytest.mark.parametrize("depth", [500, 100_000])
def test_nesting_without_end_is_passed_over(depth: int) -> None:
    """Deep enough to exhaust a parser that recurses, or deep enough to be read and not written again."""
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    raw = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":' + nested + b"}}]}}]}"
    found = read_answer(GOOGLE, raw)
    assert [call.name for call in found.tool_calls] in ([], ["f"])
