"""The scripted provider over HTTP: routes, keys, faults in every family, and no body that upsets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MESSAGES = [{"role": "user", "content": "do it"}]
CONTENTS = [{"role": "user", "parts": [{"text": "do it"}]}]
TEXT = "a reply that is long enough to be cut or to break in the middle"

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "m", "messages": MESSAGES}),
    "responses": ("/v1/responses", {"model": "m", "input": "do it"}),
    "messages": ("/v1/messages?beta=true", {"model": "m", "messages": MESSAGES, "max_tokens": 500}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": CONTENTS}),
}
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (path, {**body, "stream": True}) for name, (path, body) in BODIES.items() if name != "gemini"},
    "gemini": ("/v1/models/m:streamGenerateContent?alt=sse", {"contents": CONTENTS}),
    "gemini-array": ("/v1beta/models/m:streamGenerateContent", {"contents": CONTENTS}),
}
KEY_PLACES = {
    "chat": [{"authorization": "Bearer k"}],
    "responses": [{"authorization": "Bearer k"}],
    "messages": [{"x-api-key": "k"}, {"authorization": "Bearer k"}],
    "gemini": [{"x-goog-api-key": "k"}],
}

Provide = Callable[..., Any]


def _turn(**values: object) -> str:
    fault = values.pop("fault", "")
    rest = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    return f'[[turn]]\nsay = "{TEXT}"\n{rest}' + (f"fault = {fault}\n" if fault else "")


def _text(family: str, body: Any) -> str:
    """The reply's text in a family's JSON answer."""
    found = {
        "chat": lambda: body["choices"][0]["message"]["content"],
        "responses": lambda: body["output"][0]["content"][0]["text"],
        "messages": lambda: body["content"][0]["text"],
        "gemini": lambda: body["candidates"][0]["content"]["parts"][0]["text"],
    }
    return str(found[family]())


def _message(family: str, body: Any) -> str:
    """The message of an error, once its shape is the family's."""
    if family == "messages":
        assert (set(body), body["type"]) == ({"type", "error", "request_id"}, "error")
        assert set(body["error"]) == {"type", "message"}
    elif family.startswith("gemini"):
        assert {"code", "message", "status"} <= set(body["error"])
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


@pytest.mark.parametrize("family", sorted(BODIES))
def test_every_family_answers_in_json(provide: Provide, family: str) -> None:
    """With the text of the script, and a request id where the provider has one."""
    path, body = BODIES[family]
    answer = provide(_turn()).call(path, body)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert _text(family, answer.json) == TEXT
    header = {"messages": "request-id", "gemini": None}.get(family, "x-request-id")
    assert header is None or answer.headers[header].startswith("req_")


@pytest.mark.parametrize("family", sorted(STREAMS))
def test_every_family_streams(provide: Provide, family: str) -> None:
    """As an event stream with the family's own end; Gemini's other stream is a JSON array."""
    path, body = STREAMS[family]
    answer = provide(_turn()).call(path, body)
    assert answer.status == 200 and answer.complete
    if family == "gemini-array":
        assert answer.headers["content-type"] == "application/json" and len(answer.json) > 2
        return
    assert answer.headers["content-type"].startswith("text/event-stream")
    last = answer.events[-1]
    if family == "gemini":
        assert last["candidates"][0]["finishReason"] == "STOP"
    else:
        ends = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}
        assert (last if family == "chat" else last["type"]) == ends[family]


@pytest.mark.parametrize("family", sorted(BODIES))
def test_a_wrong_key_is_refused_in_the_family_s_shape(provide: Provide, family: str) -> None:
    """401 without a key, with a wrong one, and with the right one in another family's place."""
    path, body = BODIES[family]
    provider = provide(_turn(), "k")
    foreign = {"x-goog-api-key": "k"} if family != "gemini" else {"x-api-key": "k"}
    for headers in ({}, {"authorization": "Bearer no"}, {"x-api-key": ""}, foreign):
        answer = provider.call(path, body, headers)
        assert answer.status == 401 and b'"k"' not in answer.body
        _message(family, answer.json)
    for headers in KEY_PLACES[family]:
        assert provider.call(path, body, headers).status == 200


def test_google_takes_the_key_from_the_query(provide: Provide) -> None:
    """And nobody else does."""
    provider = provide(_turn(), "k")
    path, body = BODIES["gemini"]
    assert provider.call(f"{path}?key=k", body, {}).status == 200
    assert provider.call("/v1/chat/completions?key=k", BODIES["chat"][1], {}).status == 401


def test_without_a_key_everybody_is_let_in(provide: Provide) -> None:
    """A provider started without a key checks none."""
    assert provide(_turn(), None).call(*BODIES["chat"], {}).status == 200


@pytest.mark.parametrize("family", sorted(BODIES))
def test_an_error_status_is_served_first_and_the_turn_afterwards(provide: Provide, family: str) -> None:
    """`times` times per conversation, with the wait in the family's place."""
    path, body = BODIES[family]
    provider = provide(_turn(fault="{ status = 429, retry_after_s = 7 }", times=2))
    for _ in range(2):
        answer = provider.call(path, body)
        assert answer.status == 429 and _message(family, answer.json) == "Scripted fault."
        if family == "gemini":
            assert answer.json["error"]["details"][0]["retryDelay"] == "7s"
        else:
            assert answer.headers["retry-after"] == "7"
    assert provider.call(path, body).status == 200


def test_a_wait_is_never_invented(provide: Provide) -> None:
    """An error without `retry_after_s` says nothing about waiting."""
    answer = provide(_turn(fault="{ status = 529 }")).call(*BODIES["messages"])
    assert (answer.status, answer.json["error"]["type"]) == (529, "overloaded_error")
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("family", sorted(STREAMS))
def test_a_cut_stream_breaks_after_so_many_events(provide: Provide, family: str) -> None:
    """The events before the cut arrive whole, the end of the HTTP body never."""
    answer = provide(_turn(fault="{ cut_after_events = 2 }")).call(*STREAMS[family])
    assert answer.status == 200 and not answer.complete
    if family == "gemini-array":
        assert len(json.loads(answer.body + b"]")) == 2
    else:
        assert len(answer.events) == 2


@pytest.mark.parametrize("family", sorted(BODIES))
def test_a_cut_json_answer_is_half_of_it(provide: Provide, family: str) -> None:
    """Its length says that more should come."""
    answer = provide(_turn(fault="{ cut_after_events = 0 }")).call(*BODIES[family])
    assert answer.status == 200 and not answer.complete
    assert 0 < len(answer.body) < int(answer.headers["content-length"])


@pytest.mark.parametrize("family", sorted(STREAMS))
def test_an_error_in_the_stream_comes_after_half_of_it(provide: Provide, family: str) -> None:
    """In the family's shape, in a 200 that ends like any other; nothing of the usual end follows."""
    answer = provide(_turn(fault="{ error_in_stream = true }")).call(*STREAMS[family])
    assert answer.status == 200 and answer.complete
    found = answer.json if family == "gemini-array" else answer.events
    assert len(found) > 2
    if family == "responses":
        assert [event["type"] for event in found[-2:]] == ["error", "response.failed"]
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
        assert found[-1]["response"]["error"]["code"] == "server_error"
    elif family == "messages":
        assert (found[-1]["type"], found[-1]["error"]["type"]) == ("error", "api_error")
    else:
        _message(family, found[-1])


@pytest.mark.parametrize("family", sorted(BODIES))
def test_an_error_in_a_json_answer_is_a_200(provide: Provide, family: str) -> None:
    """The whole body is the error."""
    answer = provide(_turn(fault="{ error_in_stream = true }")).call(*BODIES[family])
    assert answer.status == 200 and "scripted fault" in _message(family, answer.json)


def test_a_delay_is_followed_by_the_turn(provide: Provide) -> None:
    """The reply is the scripted one."""
    answer = provide(_turn(fault="{ delay_ms = 1 }")).call(*BODIES["chat"])
    assert (answer.status, _text("chat", answer.json)) == (200, TEXT)


@pytest.mark.parametrize("family", sorted(BODIES))
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 5000, b"{}"])
def test_a_body_that_is_no_request_is_a_400(provide: Provide, family: str, raw: bytes) -> None:
    """In the family's shape."""
    answer = provide(_turn()).call(BODIES[family][0], raw)
    assert answer.status == 400
    _message(family, answer.json)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(family=st.sampled_from(sorted(STREAMS)), name=st.integers(0, 20), value=JSON_VALUES)
def test_no_request_upsets_the_provider(provide: Provide, family: str, name: int, value: Any) -> None:
    """Whatever stands in a known field, the answer is a reply or a refusal, never a failure of ours."""
    path, body = STREAMS[family]
    names = sorted({*body, "tools", "system", "instructions", "generationConfig", "stream_options"})
    answer = provide(_turn()).call(path, {**body, names[name % len(names)]: value})
    assert answer.status in (200, 400)


def test_a_lone_surrogate_in_the_model_s_name_is_answered(provide: Provide) -> None:
    """What has no UTF-8 form comes back as a question mark."""
    answer = provide(_turn()).call("/v1/chat/completions", {"model": "m\ud800", "messages": MESSAGES})
    assert (answer.status, answer.json["model"]) == (200, "m?")


def test_models_are_listed_in_the_shape_of_the_caller(provide: Provide) -> None:
    """By header or path; one entry by its name, 404 for a name that the script does not list."""
    provider = provide('models = ["one", "two"]\n' + _turn(), "k")
    openai, google = {"authorization": "Bearer k"}, {"x-goog-api-key": "k"}
    anthropic = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    listed = provider.call("/v1/models", None, openai).json
    assert (listed["object"], [entry["id"] for entry in listed["data"]]) == ("list", ["one", "two"])
    listed = provider.call("/v1/models?limit=2", None, anthropic).json
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("one", "two", False)
    for path in ("/v1/models", "/v1beta/models"):
        listed = provider.call(path, None, google).json
        assert [entry["name"] for entry in listed["models"]] == ["models/one", "models/two"]
    assert provider.call("/v1/models/two", None, openai).json["id"] == "two"
    assert provider.call("/v1/models/two", None, anthropic).json["display_name"] == "two"
    assert provider.call("/v1beta/models/two", None, google).json["name"] == "models/two"
    assert provider.call("/v1/models/three", None, openai).status == 404
    assert provider.call("/v1/models", None, {}).status == 401


def test_tokens_are_counted_without_touching_the_script(provide: Provide) -> None:
    """What is counted is what the call reports as input; a fault due in the conversation stays due."""
    provider = provide(_turn(fault="{ status = 500 }"))
    counted = provider.call("/v1/messages/count_tokens", {"model": "m", "messages": MESSAGES}).json
    assert provider.call(*BODIES["messages"]).status == 500
    assert provider.call(*BODIES["messages"]).json["usage"]["input_tokens"] == counted["input_tokens"]
    counted = provider.call("/v1beta/models/m:countTokens", {"contents": CONTENTS}).json
    assert provider.call(*BODIES["gemini"]).status == 500
    usage = provider.call(*BODIES["gemini"]).json["usageMetadata"]
    assert usage["promptTokenCount"] == counted["totalTokens"]


def test_embeddings_are_served(provide: Provide) -> None:
    """With the key, in JSON; a bad request is refused in OpenAI's shape."""
    provider = provide(_turn(), "k")
    headers = {"authorization": "Bearer k"}
    assert provider.call("/v1/embeddings", {"model": "m", "input": "a"}, headers).json["object"] == "list"
    assert provider.call("/v1/embeddings", {"model": "m", "input": "a"}, {}).status == 401
    refused = provider.call("/v1/embeddings", {"model": "m"}, headers)
    assert refused.status == 400 and _message("chat", refused.json).startswith("input: ")


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/v1/files", "chat"),
        ("/v1/v1/chat/completions", "chat"),
        ("/v1/messages/batches", "messages"),
        ("/v1beta/models/m:embedContent", "gemini"),
    ],
)
def test_other_routes_are_unknown(provide: Provide, path: str, family: str) -> None:
    """404 in the shape of the family that the path belongs to."""
    answer = provide(_turn()).call(path, {})
    assert answer.status == 404
    _message(family, answer.json)


def test_two_turns_of_one_conversation(provide: Provide) -> None:
    """The reply is fed back as it came, with the command's output: the script goes on."""
    provider = provide('[[turn]]\nrun = "ls"\n[[turn]]\nsay = "Done."\n')
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    first = provider.call("/v1/chat/completions", {"model": "m", "messages": MESSAGES, "tools": tools}).json
    message = first["choices"][0]["message"]
    output = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "a.txt"}
    history = [*MESSAGES, message, output]
    second = provider.call("/v1/chat/completions", {"model": "m", "messages": history, "tools": tools}).json
    assert second["choices"][0]["message"]["content"] == "Done."
    assert second["id"] != first["id"]
