"""Media, remote addresses, stored input and cache markers in the parts of a request."""

from __future__ import annotations

from typing import Any

import pytest

from workers.relay.wire.family import Family
from workers.relay.wire.request import inspect

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
FAR = "https://attacker.example/?d=secret"
INLINE = "data:image/png;base64,AA=="


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    """A body whose one user message has these parts, for chat and Anthropic."""
    return {"messages": [{"role": "user", "content": list(parts)}]}


def item(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"type": "message", "role": "user", "content": list(parts)}]}


def google(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("body", "ttls"),
    [
        ({"cache_control": FIVE}, {"5m"}),
        ({"cache_control": {"type": "ephemeral", "ttl": "5m"}}, {"5m"}),
        ({"cache_control": HOUR}, {"1h"}),
        ({"cache_control": None}, set()),
        ({"system": [{"type": "text", "text": "x", "cache_control": HOUR}]}, {"1h"}),
        ({"tools": [{"name": "t", "input_schema": {}, "cache_control": FIVE}]}, {"5m"}),
        (user({"type": "text", "text": "x", "cache_control": FIVE}), {"5m"}),
        (user({"type": "tool_result", "content": [{"type": "text", "cache_control": HOUR}]}), {"1h"}),
        ({**user({"type": "tool_result", "cache_control": FIVE}), "cache_control": HOUR}, {"5m", "1h"}),
        ({"tools": [{"input_schema": {"properties": {"cache_control": {"type": "object"}}}}]}, set()),
        (user({"type": "tool_use", "input": {"cache_control": FIVE}}), set()),
    ],
)
def test_cache_markers_are_found_wherever_they_count(body: dict[str, Any], ttls: set[str]) -> None:
    """Top level, system, tools, messages and tool results; never in a schema or in arguments."""
    assert inspect(ANTHROPIC, body).cache_ttls == ttls


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (CHAT, user({"type": "image_url", "image_url": {"url": FAR}})),
        (CHAT, user({"type": "image_url", "image_url": FAR})),
        (CHAT, user({"type": "input_audio", "input_audio": {"url": FAR}})),
        (CHAT, user({"type": "file", "file": {"file_url": FAR}})),
        (CHAT, user({"type": "file", "file": {"file_data": FAR}})),
        (CHAT, user({"type": "video_url", "video_url": {"url": FAR}})),
        (CHAT, user({"type": "text", "text": "x", "image_url": FAR})),
        (CHAT, {"messages": [{"role": "tool", "content": [{"type": "image_url", "image_url": FAR}]}]}),
        (RESPONSES, item({"type": "input_image", "image_url": FAR})),
        (RESPONSES, item({"type": "input_file", "file_url": FAR})),
        (RESPONSES, {"input": [{"type": "computer_call_output", "output": {"image_url": FAR}}]}),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": [{"image_url": FAR}]}]}),
        (ANTHROPIC, user({"type": "image", "source": {"type": "url", "url": FAR}})),
        (ANTHROPIC, user({"type": "document", "source": {"type": "url", "url": FAR}})),
        (
            ANTHROPIC,
            user({"type": "tool_result", "content": [{"source": {"type": "url", "url": FAR}}]}),
        ),
        (ANTHROPIC, {"system": [{"type": "image", "source": {"type": "url", "url": FAR}}]}),
        (
            ANTHROPIC,
            user(
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"source": {"type": "url", "url": FAR}}]},
                }
            ),
        ),
        (GOOGLE, google({"fileData": {"fileUri": FAR}})),
        (GOOGLE, google({"file_data": {"file_uri": FAR}})),
        (GOOGLE, {"systemInstruction": {"parts": [{"fileData": {"fileUri": FAR}}]}}),
        (GOOGLE, google({"functionResponse": {"parts": [{"fileData": {"fileUri": FAR}}]}})),
        (EMBEDDINGS, {"input": [{"image": FAR}]}),
    ],
)
def test_urls_that_the_provider_would_fetch_are_found(family: Family, body: dict[str, Any]) -> None:
    """In every media position of every family."""
    assert inspect(family, body).remote_urls == (FAR,)


def test_a_file_address_of_another_scheme_is_remote_too() -> None:
    """Anything but data in the request itself; long ones are cut to 200 characters."""
    for address in ("gs://bucket/a.png", "//host/a.png", " HTTP://host/a.png", "ftp://host/a"):
        body = user({"type": "image_url", "image_url": {"url": address}})
        assert inspect(CHAT, body).remote_urls == (address,)
    long = f"https://host/{'x' * 1000}"
    assert inspect(GOOGLE, google({"fileData": {"fileUri": long}})).remote_urls == (long[:200],)


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": FAR}]}),
        (CHAT, user({"type": "text", "text": FAR})),
        (CHAT, user({"type": "image_url", "image_url": {"url": INLINE}})),
        (CHAT, user({"type": "image_url", "image_url": f" DATA:{INLINE[5:]}"})),
        (CHAT, user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}})),
        (CHAT, user({"type": "file", "file": {"file_data": INLINE, "filename": "http://x"}})),
        (CHAT, {"messages": [{"tool_calls": [{"function": {"arguments": f'{{"image_url":"{FAR}"}}'}}]}]}),
        (RESPONSES, {"input": FAR}),
        (RESPONSES, {"input": [{"type": "function_call", "arguments": FAR}]}),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": FAR}]}),
        (RESPONSES, item({"type": "output_text", "annotations": [{"type": "url_citation", "url": FAR}]})),
        (ANTHROPIC, user({"type": "image", "source": {"type": "base64", "data": "AA=="}})),
        (ANTHROPIC, user({"type": "tool_use", "input": {"source": {"type": "url", "url": FAR}}})),
        (ANTHROPIC, user({"type": "search_result", "source": FAR, "content": []})),
        (GOOGLE, google({"text": FAR}, {"inlineData": {"data": "AA=="}})),
        (GOOGLE, google({"functionCall": {"args": {"fileData": {"fileUri": FAR}}}})),
        (GOOGLE, google({"functionResponse": {"response": {"fileData": {"fileUri": FAR}}}})),
        (EMBEDDINGS, {"input": [FAR]}),
    ],
)
def test_urls_that_are_only_words_are_left_alone(family: Family, body: dict[str, Any]) -> None:
    """Text, arguments and results of tool calls, citations, data of the request itself."""
    assert inspect(family, body).remote_urls == ()


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (CHAT, user({"type": "image_url", "image_url": INLINE}, {"type": "input_audio"}, {"type": "text"})),
        (RESPONSES, item({"type": "input_image", "image_url": INLINE}, {"type": "input_file"})),
        (ANTHROPIC, user({"type": "image"}, {"type": "tool_result", "content": [{"type": "document"}]})),
        (GOOGLE, google({"inlineData": {}}, {"text": "x"}, {"file_data": {}})),
    ],
)
def test_media_parts_are_counted(family: Family, body: dict[str, Any]) -> None:
    """Two in each of these, nested ones included; all but pictures may hold more tokens than bytes."""
    facts = inspect(family, body)
    assert facts.media_parts == 2
    assert facts.long_media == (2 if family is GOOGLE else 1)


@pytest.mark.parametrize(
    ("family", "body", "name"),
    [
        (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (RESPONSES, {"conversation": {"id": "conv_1"}}, "conversation"),
        (RESPONSES, {"conversation": "conv_1"}, "conversation"),
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, {"background": 1}, "background"),
        (RESPONSES, {"prompt": {"id": "pmpt_1"}}, "prompt"),
        (RESPONSES, item({"type": "input_file", "file_id": "f"}), "file_id"),
        (RESPONSES, {"input": [{"type": "item_reference", "id": "rs_1"}]}, "item_reference"),
        (RESPONSES, {"input": [{"id": "rs_1"}]}, "item_reference"),
        (CHAT, user({"type": "file", "file": {"file_id": "f"}}), "file_id"),
        (CHAT, {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, "audio"),
        (ANTHROPIC, user({"type": "image", "source": {"type": "file", "file_id": "f"}}), "file_id"),
        (ANTHROPIC, user({"type": "container_upload", "file_id": "f"}), "file_id"),
        (ANTHROPIC, {"container": "container_1"}, "container"),
        (ANTHROPIC, {"container": {"id": "container_1"}}, "container"),
        (GOOGLE, {"cachedContent": "cachedContents/1"}, "cachedContent"),
        (GOOGLE, {"cached_content": "cachedContents/1"}, "cached_content"),
    ],
)
def test_input_that_lies_with_the_provider_is_named(family: Family, body: dict[str, Any], name: str) -> None:
    """Its size is not bounded by the bytes of the request, or it keeps running."""
    assert inspect(family, body).stored == name


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (RESPONSES, {"previous_response_id": None, "conversation": None, "prompt": None}),
        (RESPONSES, {"background": False}),
        (RESPONSES, {"input": [{"role": "user", "content": "x", "id": "m"}], "prompt_cache_key": "k"}),
        (RESPONSES, {"input": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}]}),
        (ANTHROPIC, {"container": {"skills": []}}),
        (ANTHROPIC, user({"type": "tool_use", "id": "t", "input": {"file_id": "f"}})),
        (GOOGLE, {"cachedContent": None}),
    ],
)
def test_input_that_is_all_there_is_not_stored(family: Family, body: dict[str, Any]) -> None:
    """Null fields, ids of items that are spelt out, arguments of tool calls."""
    assert inspect(family, body).stored is None
