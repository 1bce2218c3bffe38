"""OpenAI chat completions: requests read, replies written as JSON and as chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.rehearsal import openai
from workers.rehearsal.asked import Asked, Tool, asked, limit_in, model_in, objects_in, single_choice, text_of
from workers.rehearsal.dialect import TROUBLE, Dialect, sse
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, pieces
from workers.rehearsal.script import Usage

_FINISHES: Final = {Finish.STOP: "stop", Finish.TOOL: "tool_calls", Finish.LENGTH: "length"}
_DONE: Final = b"data: [DONE]\n\n"


def read(body: Mapping[str, Any]) -> Asked:
    """A `POST /v1/chat/completions` body; `CallError` for one that the provider would refuse."""
    model = model_in(body)
    messages = objects_in(body, "messages")
    if not messages:
        raise CallError("messages: at least one message is required")
    single_choice(body, "n")
    options = body.get("stream_options")
    tools = objects_in(body, "tools")
    return asked(
        model,
        [(openai.speaker_of(message.get("role")), text_of(message.get("content"))) for message in messages],
        [messages, tools],
        tools=tuple(_tools(tools)),
        output_limit=limit_in(body, "max_completion_tokens", "max_tokens"),
        stream=body.get("stream") is True,
        usage_chunk=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _tools(offered: list[dict[str, Any]]) -> list[Tool]:
    functions = [tool.get("function") for tool in offered if tool.get("type") == "function"]
    return [
        Tool(name, parameters if isinstance(parameters := function.get("parameters"), dict) else {})
        for function in functions
        if isinstance(function, dict) and isinstance(name := function.get("name"), str)
    ]


def usage_object(usage: Usage) -> dict[str, Any]:
    """The usage object; cached and reasoning tokens are subsets."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def whole(reply: Reply) -> dict[str, Any]:
    """The `chat.completion` object."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text if reply.text or reply.call is None else None,
        "refusal": None,
        "annotations": [],
    }
    if reply.call is not None:
        function = {"name": reply.call.name, "arguments": reply.call.arguments_json}
        message["tool_calls"] = [{"id": _call_id(reply), "type": "function", "function": function}]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISHES[reply.finish],
    }
    return {
        **_head(reply, "chat.completion"),
        "choices": [choice],
        "usage": usage_object(reply.usage),
        "service_tier": "default",
        "system_fingerprint": None,
    }


def frames(reply: Reply, request: Asked) -> list[bytes]:
    """The stream: role, text, call in parts, finish, the usage chunk when asked for, `[DONE]`."""
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": "" if reply.text else None, "refusal": None}, None)
    ]
    deltas += [({"content": piece}, None) for piece in pieces(reply.text)]
    if reply.call is not None:
        function = {"name": reply.call.name, "arguments": ""}
        start = {"index": 0, "id": _call_id(reply), "type": "function", "function": function}
        deltas.append(({"tool_calls": [start]}, None))
        for piece in pieces(reply.call.arguments_json):
            deltas.append(({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None))
    deltas.append(({}, _FINISHES[reply.finish]))
    chunks = [
        _chunk(reply, [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])
        for delta, finish in deltas
    ]
    if request.usage_chunk:
        chunks = [{**chunk, "usage": None} for chunk in chunks]
        chunks.append({**_chunk(reply, []), "usage": usage_object(reply.usage)})
    return [*(sse(chunk) for chunk in chunks), _DONE]


def trouble(reply: Reply, sent: int) -> list[bytes]:
    """An error inside the stream: one data event with the error object, and no `[DONE]`."""
    return [sse(openai.error_object(500, TROUBLE))]


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.ident("chatcmpl-", 29),
        "object": kind,
        "created": reply.created_s,
        "model": reply.model,
    }


def _chunk(reply: Reply, choices: list[dict[str, Any]]) -> dict[str, Any]:
    head = _head(reply, "chat.completion.chunk")
    return {**head, "service_tier": "default", "system_fingerprint": None, "choices": choices}


def _call_id(reply: Reply) -> str:
    return reply.ident("call_", 24)


CHAT: Final = Dialect(
    whole=whole,
    frames=frames,
    trouble=trouble,
    refused=openai.refused,
    key_headers=openai.KEY_HEADERS,
    request_id_header=openai.REQUEST_ID_HEADER,
)
