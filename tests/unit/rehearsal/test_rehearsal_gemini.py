"""Google generateContent: what is read from a request, and the shape of every reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.rehearsal import gemini
from workers.rehearsal.asked import Asked, Tool
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, tokens

BODY: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "do it"}]}]}
SCHEMA = {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}}


@pytest.mark.parametrize("names", [("systemInstruction", "generationConfig", "functionDeclarations"), None])
def test_a_request_is_read(names: tuple[str, str, str] | None) -> None:
    """In camel and in snake spelling; the model's contents are turns, function answers are not the task."""
    system, config, functions = names or ("system_instruction", "generation_config", "function_declarations")
    limit, schema = (
        ("maxOutputTokens", "parameters") if names else ("max_output_tokens", "parameters_json_schema")
    )
    found = gemini.read(
        {
            "contents": [
                {"parts": [{"text": "do it"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "sh", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "sh", "response": {}}}]},
            ],
            system: {"parts": [{"text": "rules"}]},
            config: {limit: 8},
            "tools": [{functions: [{"name": "sh", schema: SCHEMA}, {"name": "stop"}]}, {"googleSearch": {}}],
        },
        "m",
        stream=True,
    )
    assert (found.model, found.turns, found.task, found.opening) == ("m", 1, "do it", "rules\ndo it")
    assert (found.output_limit, found.stream) == (8, True)
    assert found.tools == (Tool("sh", SCHEMA), Tool("stop"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contents": []}, "contents: at least one content is required"),
        ({"contents": "hi"}, "contents: a list of objects is expected"),
        ({"tools": [{"functionDeclarations": [7]}]}, "functionDeclarations: a list of objects is expected"),
        (
            {"generationConfig": {"candidateCount": 2}},
            "candidateCount: the scripted provider gives one choice",
        ),
        (
            {"generationConfig": {"maxOutputTokens": -1}},
            "maxOutputTokens: a whole number of at least 1 is expected",
        ),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], message: str) -> None:
    """As a provider refuses it, with a sentence that names the field."""
    with pytest.raises(CallError) as caught:
        gemini.read({**BODY, **change}, "m", stream=False)
    assert caught.value.message == message


def test_tokens_are_counted_as_they_would_be_charged() -> None:
    """For bare contents and for a whole request inside the call."""
    expected = tokens(gemini.read(BODY, "m", stream=False).prompt_bytes)
    for body in (BODY, {"generateContentRequest": {"model": "models/m", **BODY}}):
        assert gemini.count_tokens(body, "m")["totalTokens"] == expected


def test_the_json_reply_has_the_stated_shape(make_reply: Callable[..., Reply]) -> None:
    """Thoughts stand beside the candidates' tokens, cached ones inside the prompt's; the sum is the total."""
    found = gemini.whole(make_reply())
    candidate = found["candidates"][0]
    text, call = candidate["content"]["parts"]
    assert (candidate["content"]["role"], candidate["finishReason"]) == ("model", "STOP")
    assert text == {"text": "I will write the file: größer."}
    assert call == {"functionCall": {"name": "bash", "args": {"command": "echo hello > hello.txt"}}}
    usage = found["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (100, 40)
    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"]) == (15, 5)
    assert usage["totalTokenCount"] == 120 and found["modelVersion"] == "model-x" and found["responseId"]


def _responses(frames: list[bytes]) -> list[Any]:
    assert all(frame.startswith(b"data: ") and frame.endswith(b"\r\n\r\n") for frame in frames)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def test_the_stream_adds_up_to_the_json_reply(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """Text in several responses, the call whole in the last; usage grows to that of the JSON reply."""
    reply = make_reply()
    found = _responses(gemini.frames(reply, make_asked()))
    parts = [part for response in found for part in response["candidates"][0]["content"]["parts"]]
    texts = [part["text"] for part in parts if "text" in part]
    assert len(texts) > 1 and "".join(texts) == reply.text and "functionCall" in parts[-1]
    assert ["finishReason" in response["candidates"][0] for response in found][-2:] == [False, True]
    counts = [response["usageMetadata"]["candidatesTokenCount"] for response in found]
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert found[-1]["usageMetadata"] == gemini.whole(reply)["usageMetadata"]


def test_without_sse_the_stream_is_one_array(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """The same responses; every frame but the last ends with an element, an error closes the array."""
    reply = make_reply()
    frames = gemini.array_frames(reply, make_asked())
    assert json.loads(b"".join(frames)) == _responses(gemini.frames(reply, make_asked()))
    assert len(json.loads(b"".join(frames[:2]) + b"]")) == 2
    for sent in (0, 2):
        broken = json.loads(b"".join([*frames[:sent], *gemini.array_trouble(reply, sent)]))
        assert len(broken) == sent + 1 and broken[-1]["error"]["status"] == "UNAVAILABLE"


def test_a_text_ends_with_an_empty_part(
    make_reply: Callable[..., Reply], make_asked: Callable[..., Asked]
) -> None:
    """The last response of a text carries only the reason why it ended."""
    found = _responses(gemini.frames(make_reply(call=None, finish=Finish.LENGTH), make_asked()))
    last = found[-1]["candidates"][0]
    assert (last["finishReason"], last["content"]["parts"]) == ("MAX_TOKENS", [{"text": ""}])


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (429, "RESOURCE_EXHAUSTED"),
        (503, "UNAVAILABLE"),
        (599, "INTERNAL"),
    ],
)
def test_errors_have_the_statuses_of_google(status: int, name: str) -> None:
    """By HTTP status; the wait is a `RetryInfo` detail, and no header."""
    found = gemini.refused(status, "no", 3)
    error = found.body["error"]
    assert (error["code"], error["message"], error["status"]) == (status, "no", name)
    assert error["details"][0]["retryDelay"] == "3s" and found.headers == {}
    assert "details" not in gemini.refused(status, "no", None).body["error"]
