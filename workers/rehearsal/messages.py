"""Anthropic Messages: requests read, replies written as JSON and as events, tokens counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from workers.rehearsal.asked import Asked, Speaker, Tool, asked, limit_in, model_in, objects_in, text_of
from workers.rehearsal.dialect import TROUBLE, Dialect, Refused, sse, wait_headers
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, pieces, tokens
from workers.rehearsal.script import Usage

_FINISHES: Final = {Finish.STOP: "end_turn", Finish.TOOL: "tool_use", Finish.LENGTH: "max_tokens"}
_SPEAKERS: Final = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT, "system": Speaker.SYSTEM}
_ERROR_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def read(body: Mapping[str, Any]) -> Asked:
    """A `POST /v1/messages` body; `CallError` for one that the provider would refuse."""
    limit = limit_in(body, "max_tokens")
    if limit is None:
        raise CallError("max_tokens: Field required")
    return _read(body, limit)


def count_tokens(body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `POST /v1/messages/count_tokens`: the input tokens that a call would be charged."""
    return {"input_tokens": tokens(_read(body, None).prompt_bytes)}


def _read(body: Mapping[str, Any], limit: int | None) -> Asked:
    model = model_in(body)
    history = objects_in(body, "messages")
    if not history:
        raise CallError("messages: at least one message is required")
    system = text_of(body.get("system"))
    tools = objects_in(body, "tools")
    return asked(
        model,
        [(Speaker.SYSTEM, system), *map(_item, history)],
        [system, history, tools],
        tools=tuple(_tools(tools)),
        output_limit=limit,
        stream=body.get("stream") is True,
    )


def _item(message: Mapping[str, Any]) -> tuple[Speaker, str]:
    role = message.get("role")
    speaker = _SPEAKERS.get(role, Speaker.OTHER) if isinstance(role, str) else Speaker.OTHER
    return speaker, text_of(message.get("content"))


def _tools(offered: Iterable[Mapping[str, Any]]) -> Iterator[Tool]:
    for tool in offered:
        name, schema = tool.get("name"), tool.get("input_schema")
        if isinstance(name, str) and (isinstance(schema, dict) or str(tool.get("type")).startswith("bash_")):
            yield Tool(name, schema if isinstance(schema, dict) else {})


def usage_object(usage: Usage) -> dict[str, Any]:
    """The usage object; input tokens do not include the cached ones, which count as read from the cache."""
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def whole(reply: Reply) -> dict[str, Any]:
    """The `message` object."""
    return {
        **_head(reply),
        "content": [block for block, _ in _blocks(reply)],
        "stop_reason": _FINISHES[reply.finish],
        "stop_sequence": None,
        "usage": usage_object(reply.usage),
    }


def frames(reply: Reply, request: Asked) -> list[bytes]:
    """The stream: start, blocks with a ping after the first has begun, delta with final usage, stop."""
    usage = usage_object(reply.usage)
    started = {
        **_head(reply),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": min(1, reply.usage.output)},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": started}]
    for index, (block, deltas) in enumerate(_blocks(reply)):
        events.append({"type": "content_block_start", "index": index, "content_block": _emptied(block)})
        if index == 0:
            events.append({"type": "ping"})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _FINISHES[reply.finish], "stop_sequence": None}
    counted = {key: value for key, value in usage.items() if key.endswith("_tokens")}
    events += [{"type": "message_delta", "delta": ended, "usage": counted}, {"type": "message_stop"}]
    return [sse(event, event["type"]) for event in events]


def trouble(reply: Reply, sent: int) -> list[bytes]:
    """An error inside the stream: one `error` event, after which nothing comes."""
    return [sse({"type": "error", "error": {"type": "api_error", "message": TROUBLE}}, "error")]


def refused(status: int, message: str, retry_after_s: int | None) -> Refused:
    """An error answer; `retry_after_s` goes into the `retry-after` header."""
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    error = {"type": _ERROR_TYPES.get(status, fallback), "message": message}
    return Refused({"type": "error", "error": error, "request_id": None}, wait_headers(retry_after_s))


def _head(reply: Reply) -> dict[str, Any]:
    ident = reply.ident("msg_01", 22)
    return {"id": ident, "type": "message", "role": "assistant", "model": reply.model}


def _blocks(reply: Reply) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Every content block with the deltas that build it up."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.text:
        text_deltas = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text)]
        found.append(({"type": "text", "text": reply.text}, text_deltas))
    if reply.call is not None:
        block = {
            "type": "tool_use",
            "id": reply.ident("toolu_01", 22),
            "name": reply.call.name,
            "input": dict(reply.call.arguments),
        }
        parts = ["", *pieces(reply.call.arguments_json)]
        found.append((block, [{"type": "input_json_delta", "partial_json": part} for part in parts]))
    return found


def _emptied(block: Mapping[str, Any]) -> dict[str, Any]:
    return {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}


MESSAGES: Final = Dialect(
    whole=whole,
    frames=frames,
    trouble=trouble,
    refused=refused,
    key_headers=("x-api-key", "authorization"),
    request_id_header="request-id",
)
