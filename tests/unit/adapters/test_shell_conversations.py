"""The reference agent's three wire formats: whole two-turn conversations with literal provider answers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.adapters.shell.calls import MOST_COMMANDS, Command
from workers.adapters.shell.conversation import PARAMETERS, Conversation, Opening
from workers.adapters.shell.errors import UnspokenFamilyError
from workers.adapters.shell.families import SPOKEN, begin
from workers.relay.wire.family import Family
from workers.relay.wire.request import inspect, parse_body

OPENING = Opening("m-1", "Be brief.", "Write hello.txt.", 900)
WITHOUT_LIMIT = Opening("m-1", "Be brief.", "Write hello.txt.", None)
COMMAND = "echo hello > hello.txt"


def chat_call(call_id: str, command: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": call_id, "type": "function", "function": function}


CHAT_CALL = chat_call("call_1", COMMAND)
CHAT_MESSAGE = {
    "role": "assistant",
    "content": "I will write it.",
    "refusal": None,
    "annotations": [],
    "reasoning_content": "The user wants a file.",
    "tool_calls": [CHAT_CALL],
}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [{"index": 0, "message": CHAT_MESSAGE, "finish_reason": "tool_calls", "logprobs": None}],
    "usage": {"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110},
}
CHAT_END = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]
}

THINKING = {"type": "thinking", "thinking": "A file, then.", "signature": "c2lnbmF0dXJl"}
REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}
SAID = {"type": "text", "text": "I will write it."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": COMMAND}}
MESSAGES = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [THINKING, REDACTED, SAID, USE],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 90, "output_tokens": 20},
}
MESSAGES_END = {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}

GEMINI_PARTS = [
    {"text": "A file, then.", "thought": True},
    {"text": "I will write it."},
    {"functionCall": {"name": "bash", "args": {"command": COMMAND}}, "thoughtSignature": "c2lnbmF0dXJl"},
]
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": GEMINI_PARTS}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 90, "candidatesTokenCount": 20, "totalTokenCount": 110},
}
GEMINI_END = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP"}]
}

FIRST: dict[Family, tuple[dict[str, Any], dict[str, Any]]] = {
    Family.OPENAI_CHAT: (CHAT, CHAT_END),
    Family.ANTHROPIC: (MESSAGES, MESSAGES_END),
    Family.GOOGLE: (GEMINI, GEMINI_END),
}


def two_turns(family: Family, opening: Opening = OPENING) -> Conversation:
    """A conversation whose first answer was taken and whose command has been run."""
    talk = begin(family, opening)
    turn = talk.take(FIRST[family][0])
    assert [command.text for command in turn.commands] == [COMMAND]
    talk.results([(turn.commands[0], "exit code: 0\n(no output)")])
    return talk


@pytest.mark.parametrize("family", list(FIRST))
def test_a_conversation_of_two_turns(family: Family) -> None:
    """A command, its result, and an answer without one, which ends it; thoughts are no part of the text."""
    talk = begin(family, OPENING)
    turn = talk.take(FIRST[family][0])
    assert turn.text == "I will write it."
    assert (turn.finished, turn.cut, turn.unusable) == (False, False, ())
    talk.results([(turn.commands[0], "exit code: 0\n(no output)")])
    last = talk.take(FIRST[family][1])
    assert (last.text, last.commands, last.finished, last.cut) == ("Done.", (), True, False)


def test_chat_requests() -> None:
    """The chat body of both turns; the assistant's message goes back with everything that it came with."""
    opened = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Write hello.txt."}]
    first = begin(Family.OPENAI_CHAT, OPENING).request()
    assert first["messages"] == opened
    assert {name: first[name] for name in ("model", "max_completion_tokens")} == {
        "model": "m-1",
        "max_completion_tokens": 900,
    }
    (tool,) = first["tools"]
    assert (tool["type"], tool["function"]["name"], tool["function"]["parameters"]) == (
        "function",
        "bash",
        PARAMETERS,
    )
    assert two_turns(Family.OPENAI_CHAT).request()["messages"] == [
        *opened,
        CHAT_MESSAGE,
        {"role": "tool", "tool_call_id": "call_1", "content": "exit code: 0\n(no output)"},
    ]


def test_messages_requests() -> None:
    """The Messages body of both turns; thinking goes back unchanged, signature included."""
    first = begin(Family.ANTHROPIC, OPENING).request()
    assert first["system"] == "Be brief."
    assert first["messages"] == [{"role": "user", "content": "Write hello.txt."}]
    assert (first["model"], first["max_tokens"]) == ("m-1", 900)
    (tool,) = first["tools"]
    assert (tool["name"], tool["input_schema"]) == ("bash", PARAMETERS)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "exit code: 0\n(no output)"}
    assert two_turns(Family.ANTHROPIC).request()["messages"] == [
        {"role": "user", "content": "Write hello.txt."},
        {"role": "assistant", "content": [THINKING, REDACTED, SAID, USE]},
        {"role": "user", "content": [result]},
    ]


def test_gemini_requests() -> None:
    """The Gemini body of both turns; parts go back unchanged, thought signature included."""
    first = begin(Family.GOOGLE, OPENING).request()
    assert first["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert first["generationConfig"] == {"maxOutputTokens": 900}
    assert "model" not in first
    (tool,) = first["tools"]
    (function,) = tool["functionDeclarations"]
    assert (function["name"], function["parameters"]) == ("bash", PARAMETERS)
    response = {"name": "bash", "response": {"output": "exit code: 0\n(no output)"}}
    assert two_turns(Family.GOOGLE).request()["contents"] == [
        {"role": "user", "parts": [{"text": "Write hello.txt."}]},
        {"role": "model", "parts": GEMINI_PARTS},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]


def test_where_a_call_goes_and_how_the_token_travels() -> None:
    """Path and headers of each family; a model's name cannot reach out of the path."""
    chat, messages = begin(Family.OPENAI_CHAT, OPENING), begin(Family.ANTHROPIC, OPENING)
    assert (chat.path, chat.headers("t")) == ("/v1/chat/completions", {"authorization": "Bearer t"})
    assert (messages.path, messages.headers("t")["x-api-key"]) == ("/v1/messages", "t")
    assert messages.headers("t")["anthropic-version"] == "2023-06-01"
    odd = begin(Family.GOOGLE, Opening("m/1:x?y", "", "", None))
    assert odd.path == "/v1beta/models/m%2F1%3Ax%3Fy:generateContent"
    assert odd.headers("t") == {"x-goog-api-key": "t"}


@pytest.mark.parametrize("family", list(FIRST))
def test_no_limit_is_asked_for_unless_one_is_given(family: Family) -> None:
    """Without a limit the relay injects one, so that no request may carry a field of that name."""
    body = two_turns(family, WITHOUT_LIMIT).request()
    assert inspect(family, body).output_limit is None
    assert inspect(family, two_turns(family).request()).output_limit == 900


@pytest.mark.parametrize("family", list(FIRST))
def test_the_relay_finds_nothing_to_refuse(family: Family) -> None:
    """Read by the relay's own parser: no stream, no provider tool, no stored input, no remote media."""
    body = two_turns(family).request()
    facts = inspect(family, parse_body(json.dumps(body).encode()))
    assert (facts.stream, facts.provider_tools, facts.stored, facts.remote_urls) == (False, (), None, ())
    assert facts.choices == 1 and facts.media_parts == 0
    assert facts.model == (None if family is Family.GOOGLE else "m-1")


@pytest.mark.parametrize("family", list(FIRST))
def test_answers_and_requests_are_not_changed_later(family: Family) -> None:
    """A request that was handed out stays as it was, and so does the answer that was taken."""
    talk = begin(family, OPENING)
    first = talk.request()
    before = copy.deepcopy(first)
    answer = copy.deepcopy(FIRST[family][0])
    turn = talk.take(answer)
    talk.results([(turn.commands[0], "x")])
    assert first == before
    assert answer == FIRST[family][0]


def _chat_of(arguments: list[str], finish: str) -> dict[str, Any]:
    calls = [chat_call(f"c{n}", text) for n, text in enumerate(arguments)]
    return {"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": finish}]}


def _messages_of(arguments: list[str], finish: str) -> dict[str, Any]:
    uses = [
        {"type": "tool_use", "id": f"c{n}", "name": "bash", "input": {"command": text}}
        for n, text in enumerate(arguments)
    ]
    return {"content": uses, "stop_reason": finish}


def _gemini_of(arguments: list[str], finish: str) -> dict[str, Any]:
    parts = [{"functionCall": {"name": "bash", "args": {"command": text}}} for text in arguments]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": finish}]}


MANY: dict[Family, tuple[Callable[[list[str], str], dict[str, Any]], str, str]] = {
    Family.OPENAI_CHAT: (_chat_of, "tool_calls", "length"),
    Family.ANTHROPIC: (_messages_of, "tool_use", "max_tokens"),
    Family.GOOGLE: (_gemini_of, "STOP", "MAX_TOKENS"),
}


def answers_in(family: Family, body: dict[str, Any]) -> list[str]:
    """The texts that the last message answers its calls with, in order."""
    if family is Family.OPENAI_CHAT:
        return [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if family is Family.ANTHROPIC:
        return [block["content"] for block in body["messages"][-1]["content"]]
    responses = [part["functionResponse"]["response"] for part in body["contents"][-1]["parts"]]
    return [text for response in responses for text in response.values()]


@pytest.mark.parametrize("family", list(MANY))
def test_several_calls_are_answered_in_their_order(family: Family) -> None:
    """Results find their calls whatever order they are handed in."""
    make, finish, _ = MANY[family]
    talk = begin(family, OPENING)
    turn = talk.take(make(["a", "b", "c"], finish))
    assert [command.text for command in turn.commands] == ["a", "b", "c"]
    talk.results([(command, f"did {command.text}") for command in reversed(turn.commands)])
    assert answers_in(family, talk.request()) == ["did a", "did b", "did c"]


@pytest.mark.parametrize("family", list(MANY))
def test_only_so_many_commands_of_an_answer_are_run(family: Family) -> None:
    """The rest is answered with the reason."""
    make, finish, _ = MANY[family]
    talk = begin(family, OPENING)
    turn = talk.take(make(["x"] * (MOST_COMMANDS + 2), finish))
    assert len(turn.commands) == MOST_COMMANDS and len(turn.unusable) == 2
    talk.results([(command, "ok") for command in turn.commands])
    answers = answers_in(family, talk.request())
    assert answers[:MOST_COMMANDS] == ["ok"] * MOST_COMMANDS
    assert all(f"first {MOST_COMMANDS} commands" in text for text in answers[MOST_COMMANDS:])


@pytest.mark.parametrize("family", list(MANY))
def test_the_last_call_of_a_cut_answer_is_not_run(family: Family) -> None:
    """It may be half a command: `rm -rf /tmp/x` cut after the first slash is another command."""
    make, _, cut = MANY[family]
    talk = begin(family, OPENING)
    turn = talk.take(make(["whole", "rm -rf /"], cut))
    assert turn.cut and not turn.finished and turn.finish == cut
    assert [command.text for command in turn.commands] == ["whole"]
    talk.results([(turn.commands[0], "ok")])
    first, second = answers_in(family, talk.request())
    assert first == "ok" and "output limit" in second


@pytest.mark.parametrize("family", list(MANY))
def test_a_cut_answer_without_a_call_ends_the_work(family: Family) -> None:
    """Finished, and marked as cut."""
    make, _, cut = MANY[family]
    turn = begin(family, OPENING).take(make([], cut))
    assert (turn.finished, turn.cut, turn.finish) == (True, True, cut)


def test_a_call_without_a_result_is_answered_all_the_same() -> None:
    """Providers refuse a history with an open call."""
    talk = begin(Family.OPENAI_CHAT, OPENING)
    talk.take(CHAT)
    talk.results([(Command("another", "x"), "y")])
    assert talk.request()["messages"][-1]["content"] == "not run"


def test_a_gemini_call_with_an_id_gets_it_back() -> None:
    """The id is the provider's own; without one there is none in the result."""
    talk = begin(Family.GOOGLE, OPENING)
    call = {"id": "fc-7", "name": "bash", "args": {"command": "ls"}}
    turn = talk.take({"candidates": [{"content": {"parts": [{"functionCall": call}]}}]})
    talk.results([(turn.commands[0], "ok")])
    response = talk.request()["contents"][-1]["parts"][0]["functionResponse"]
    assert response == {"id": "fc-7", "name": "bash", "response": {"output": "ok"}}


@pytest.mark.parametrize("family", [one for one in Family if one not in SPOKEN])
def test_other_families_are_refused(family: Family) -> None:
    """Embeddings are no conversation, and Responses is not spoken."""
    with pytest.raises(UnspokenFamilyError, match=family.value):
        begin(family, OPENING)
