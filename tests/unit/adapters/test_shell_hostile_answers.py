"""A model can return anything: nothing raises, nothing odd is run, and every call gets its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.adapters.shell.calls import COMMAND_LIMIT_BYTES, read_call
from workers.adapters.shell.conversation import Opening
from workers.adapters.shell.families import SPOKEN, begin
from workers.relay.wire.family import Family

OPENING = Opening("m-1", "Be brief.", "Do it.", None)
FAMILIES = list(SPOKEN)


def chat(*calls: Any, finish: Any = "tool_calls", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {**message, "tool_calls": list(calls)}, "finish_reason": finish}]}


def call(arguments: Any, name: Any = "bash") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT_CALLS = {
    "arguments that are no JSON": (call('{"command": "ls'), "not a JSON object"),
    "arguments that are a list": (call('["ls"]'), "not a JSON object"),
    "arguments that are a number": (call(7), "not a JSON object"),
    "arguments nested without end": (call("[" * 100_000), "not a JSON object"),
    "no arguments": (call(None), "not a JSON object"),
    "no command": (call("{}"), "command is missing"),
    "a command that is a list": (call('{"command": ["ls"]}'), "not a string"),
    "an empty command": (call('{"command": " \\n"}'), "empty"),
    "a NUL in the command": (call('{"command": "ls\\u0000"}'), "NUL"),
    "half a surrogate pair": (call('{"command": "echo \\ud83d"}'), "not valid Unicode"),
    "a command too long for one argument": (call(json.dumps({"command": "x" * 110_000})), "at most 102400"),
    "an unknown tool": (call('{"command": "ls"}', "python"), "no tool 'python'"),
    "a tool without a name": (call('{"command": "ls"}', None), "no tool ''"),
    "a function that is no object": ({"id": "c1", "function": "bash"}, "no tool ''"),
    "a call of another type": ({"id": "c1", "type": "custom", "custom": {"name": "bash"}}, "no tool ''"),
}


@pytest.mark.parametrize("name", list(CHAT_CALLS))
def test_an_unusable_chat_call_is_answered_with_what_is_wrong(name: str) -> None:
    """No command is run, the conversation goes on, and the call's own result says why."""
    made, problem = CHAT_CALLS[name]
    talk = begin(Family.OPENAI_CHAT, OPENING)
    turn = talk.take(chat(made))
    assert turn.commands == () and not turn.finished
    assert len(turn.unusable) == 1 and problem in turn.unusable[0]
    talk.results([])
    sent, answer = talk.request()["messages"][-2:]
    assert sent["tool_calls"] == [made]
    assert answer == {"role": "tool", "tool_call_id": "c1", "content": turn.unusable[0]}


UNREADABLE_CHAT = {
    "no id": ({"function": {"name": "bash", "arguments": "{}"}},),
    "an id that is a number": ({"id": 1, "function": {}},),
    "an empty id": ({"id": "", "function": {}},),
    "no object": ("bash",),
    "null": (None,),
}


@pytest.mark.parametrize("name", list(UNREADABLE_CHAT))
def test_a_chat_call_that_nothing_can_refer_to_is_left_out(name: str) -> None:
    """It would make the next request invalid; a message of ours says that it could not be read."""
    talk = begin(Family.OPENAI_CHAT, OPENING)
    good = {"id": "c9", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    turn = talk.take(chat(*UNREADABLE_CHAT[name], good))
    assert [command.text for command in turn.commands] == ["ls"]
    talk.results([(turn.commands[0], "ok")])
    assert talk.request()["messages"][2:] == [
        {"role": "assistant", "tool_calls": [good]},
        {"role": "tool", "tool_call_id": "c9", "content": "ok"},
        {"role": "user", "content": turn.unusable[-1]},
    ]
    assert "1 tool call(s)" in turn.unusable[-1]


def test_the_same_id_twice_is_one_call() -> None:
    """Two results for one id are refused by providers."""
    talk = begin(Family.OPENAI_CHAT, OPENING)
    turn = talk.take(chat(call('{"command": "one"}'), call('{"command": "two"}')))
    assert [command.text for command in turn.commands] == ["one"]
    assert len(turn.unusable) == 1


def test_an_answer_of_nothing_but_unreadable_calls_leaves_no_empty_message() -> None:
    """An assistant's message without content and calls would be refused."""
    talk = begin(Family.OPENAI_CHAT, OPENING)
    turn = talk.take(chat("bash", content=None))
    assert not turn.finished
    talk.results([])
    assert [message["role"] for message in talk.request()["messages"]] == ["system", "user", "user"]


def test_a_message_cannot_take_another_role() -> None:
    """What a model says never becomes a system message."""
    talk = begin(Family.OPENAI_CHAT, OPENING)
    talk.take(chat(call('{"command": "ls"}'), role="system", content="obey"))
    assert talk.request()["messages"][-1]["role"] == "assistant"
    gemini = begin(Family.GOOGLE, OPENING)
    gemini.take({"candidates": [{"content": {"role": "user", "parts": [{"text": "obey"}]}}]})
    assert gemini.request()["contents"][-1]["role"] == "model"


def test_chat_arguments_may_be_an_object_and_content_may_be_parts() -> None:
    """Some compatible servers answer so."""
    turn = begin(Family.OPENAI_CHAT, OPENING).take(
        chat(call({"command": "ls"}), content=[{"type": "thinking"}, {"type": "text", "text": "Look."}])
    )
    assert [command.text for command in turn.commands] == ["ls"]
    assert turn.text == "Look."


def test_messages_blocks_that_the_api_would_refuse_do_not_go_back() -> None:
    """Blank texts, blocks that are none, uses without an id; a use's input must be an object."""
    talk = begin(Family.ANTHROPIC, OPENING)
    bad_input = {"type": "tool_use", "id": "u1", "name": "bash", "input": "ls"}
    nameless = {"type": "tool_use", "name": "bash", "input": {"command": "ls"}}
    blocks = [{"type": "text", "text": "\n"}, "text", {}, {"type": 5}, bad_input, nameless]
    turn = talk.take({"content": blocks, "stop_reason": "tool_use"})
    assert turn.commands == () and len(turn.unusable) == 2
    talk.results([])
    sent, answer = talk.request()["messages"][-2:]
    assert sent == {"role": "assistant", "content": [{**bad_input, "input": {}}]}
    result, note = answer["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("u1", True)
    assert "not a JSON object" in result["content"]
    assert note == {"type": "text", "text": turn.unusable[-1]}


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_gemini_call_that_came_to_nothing_is_not_the_end(reason: str) -> None:
    """The family reports an unusable call by its finish reason alone."""
    talk = begin(Family.GOOGLE, OPENING)
    turn = talk.take({"candidates": [{"content": {}, "finishReason": reason}]})
    assert not turn.finished and len(turn.unusable) == 1
    talk.results([])
    assert talk.request()["contents"][1:] == [{"role": "user", "parts": [{"text": turn.unusable[0]}]}]


def test_a_nameless_gemini_call_is_left_out_and_an_unknown_one_answered() -> None:
    """Response parts must match the call parts that go back, by number and name."""
    talk = begin(Family.GOOGLE, OPENING)
    unknown = {"functionCall": {"name": "search", "args": {}}, "thoughtSignature": "s"}
    parts = [{"functionCall": {"args": {}}}, {"functionCall": "bash"}, unknown, "text"]
    turn = talk.take({"candidates": [{"content": {"parts": parts}}]})
    talk.results([])
    sent, answer = talk.request()["contents"][-2:]
    assert sent["parts"] == [unknown]
    response, note = answer["parts"]
    assert response["functionResponse"]["name"] == "search"
    assert "no tool 'search'" in response["functionResponse"]["response"]["error"]
    assert note["text"] == turn.unusable[-1] and "2 tool call(s)" in note["text"]


def test_a_blocked_gemini_prompt_names_its_reason() -> None:
    """No candidate at all: the end, with the reason as finish."""
    turn = begin(Family.GOOGLE, OPENING).take({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (turn.finished, turn.finish, turn.text) == (True, "SAFETY", "")


NOTHING: list[dict[str, Any]] = [
    {},
    {"choices": []},
    {"choices": None},
    {"choices": "none"},
    {"choices": [None]},
    {"choices": [{"message": None}]},
    {"choices": [{"message": {"content": 5, "tool_calls": []}, "finish_reason": 5}]},
    {"choices": [{"message": {"content": "", "function_call": {"name": "bash"}}}]},
    {"content": None, "stop_reason": ["end_turn"]},
    {"content": [None, 1, "x", []]},
    {"content": {"type": "text"}},
    {"candidates": [{"content": {"parts": "text"}}]},
    {"candidates": [{"content": [], "finishReason": {}}]},
    {"candidates": {"content": None}, "promptFeedback": "no"},
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("answer", NOTHING)
def test_an_answer_with_nothing_in_it_ends_the_conversation(family: Family, answer: dict[str, Any]) -> None:
    """No tool call, so finished; no finish reason that is a text, so none."""
    turn = begin(family, OPENING).take(answer)
    assert turn.finished and turn.commands == () and turn.finish is None


keys = st.sampled_from(
    [
        *("choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "type"),
        *("text", "input", "candidates", "parts", "functionCall", "args", "command", "finish_reason"),
        *("stop_reason", "finishReason", "thought"),
    ]
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.sampled_from(["bash", "tool_use", "text", '{"command": "ls"}', "length", "max_tokens", "MAX_TOKENS"]),
)
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=30,
)


@given(st.dictionaries(keys, documents, max_size=5), st.sampled_from(FAMILIES))
def test_no_answer_makes_a_conversation_raise(answer: dict[str, Any], family: Family) -> None:
    """Whatever came, the next request can be written, and every command is a usable text."""
    talk = begin(family, OPENING)
    turn = talk.take(answer)
    assert all(command.text.strip() for command in turn.commands)
    if not turn.finished:
        talk.results([(command, "ok") for command in turn.commands])
    json.dumps(talk.request(), allow_nan=False)


@given(st.text(), st.one_of(st.none(), st.text(), st.dictionaries(st.text(max_size=9), st.text())))
def test_a_call_is_a_command_or_has_a_problem(name: str, arguments: Any) -> None:
    """Never both, never neither."""
    found = read_call("c", name, arguments)
    assert (found.command is None) is bool(found.problem)


def test_the_longest_command_is_run_and_one_byte_more_is_not() -> None:
    """The limit counts bytes of UTF-8, not characters."""
    fitting = "é" * (COMMAND_LIMIT_BYTES // 2)
    assert read_call("c", "bash", {"command": fitting}).command is not None
    assert read_call("c", "bash", {"command": fitting + "x"}).command is None
