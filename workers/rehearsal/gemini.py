"""Google generateContent and streamGenerateContent: requests read, replies written, tokens counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from workers.rehearsal.asked import Asked, Speaker, Tool, asked, limit_in, objects_in, single_choice, text_of
from workers.rehearsal.dialect import JSON, TROUBLE, Dialect, Refused, encoded, sse
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, pieces, tokens
from workers.rehearsal.script import Usage

_FINISHES: Final = {Finish.STOP: "STOP", Finish.TOOL: "STOP", Finish.LENGTH: "MAX_TOKENS"}
_CRLF: Final = b"\r\n"
_SCHEMA_KEYS: Final = ("parameters", "parametersJsonSchema", "parameters_json_schema")
_STATUSES: Final = {
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def read(body: Mapping[str, Any], model: str, *, stream: bool) -> Asked:
    """The body of a `:generateContent` call of `model`; `CallError` for one that would be refused."""
    contents = objects_in(body, "contents")
    if not contents:
        raise CallError("contents: at least one content is required")
    given = _either(body, "generationConfig", "generation_config")
    config = given if isinstance(given, dict) else {}
    single_choice(config, "candidateCount")
    system = _text(_either(body, "systemInstruction", "system_instruction"))
    tools = objects_in(body, "tools")
    return asked(
        model,
        [(Speaker.SYSTEM, system), *map(_item, contents)],
        [system, contents, tools],
        tools=tuple(_tools(tools)),
        output_limit=limit_in(config, "maxOutputTokens", "max_output_tokens"),
        stream=stream,
    )


def count_tokens(body: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The answer of `:countTokens`: the prompt tokens that a call with this body would be charged."""
    inner = _either(body, "generateContentRequest", "generate_content_request")
    counted = tokens(read(inner if isinstance(inner, dict) else body, model, stream=False).prompt_bytes)
    return {"totalTokens": counted, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": counted}]}


def _either(body: Mapping[str, Any], camel: str, snake: str) -> object:
    return body.get(camel, body.get(snake))


def _text(content: object) -> str:
    return text_of(content.get("parts")) if isinstance(content, dict) else text_of(content)


def _item(content: Mapping[str, Any]) -> tuple[Speaker, str]:
    role = content.get("role", "user")
    if role == "model":
        return Speaker.ASSISTANT, ""
    return (Speaker.USER if role == "user" else Speaker.OTHER), _text(content)


def _tools(offered: Iterable[Mapping[str, Any]]) -> Iterator[Tool]:
    for tool in offered:
        for function in objects_in(tool, "functionDeclarations", "function_declarations"):
            name = function.get("name")
            if isinstance(name, str):
                yield Tool(name, _schema(function))


def _schema(function: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (function.get(key) for key in _SCHEMA_KEYS)
    return next((schema for schema in found if isinstance(schema, dict)), {})


def usage_object(usage: Usage, visible: int) -> dict[str, Any]:
    """The usage with `visible` candidate tokens so far; thoughts stand beside them, cached ones inside."""
    found: dict[str, Any] = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": visible,
        "totalTokenCount": usage.input + usage.reasoning + visible,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    }
    if usage.cached:
        found["cachedContentTokenCount"] = usage.cached
        found["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": usage.cached}]
    if usage.reasoning:
        found["thoughtsTokenCount"] = usage.reasoning
    return found


def whole(reply: Reply) -> dict[str, Any]:
    """The one `GenerateContentResponse` of a call without streaming."""
    parts = [{"text": reply.text}] if reply.text else []
    return _response(reply, [*parts, *_call_parts(reply)], _FINISHES[reply.finish], _visible(reply))


def _responses(reply: Reply) -> list[dict[str, Any]]:
    """The responses of a stream: text pieces, then call and finish; usage is cumulative in each."""
    texts = pieces(reply.text)
    total = _visible(reply)
    started = [
        _response(reply, [{"text": piece}], None, total * number // (len(texts) + 1))
        for number, piece in enumerate(texts, 1)
    ]
    parts = _call_parts(reply) or [{"text": ""}]
    return [*started, _response(reply, parts, _FINISHES[reply.finish], total)]


def frames(reply: Reply, request: Asked) -> list[bytes]:
    """The stream of `alt=sse`, which has no closing mark."""
    return [sse(response, line_end=_CRLF) for response in _responses(reply)]


def array_frames(reply: Reply, request: Asked) -> list[bytes]:
    """The stream without `alt=sse`: one JSON array, element by element."""
    elements = [encoded(response) for response in _responses(reply)]
    rest = [b",\r\n" + element for element in elements[1:]]
    return [b"[" + elements[0], *rest, b"\n]\n"]


def trouble(reply: Reply, sent: int) -> list[bytes]:
    """An error inside the stream: one event with the error object."""
    return [sse(refused(503, TROUBLE, None).body, line_end=_CRLF)]


def array_trouble(reply: Reply, sent: int) -> list[bytes]:
    """An error inside the array: one more element with the error object, then the end of the array."""
    return [(b",\r\n" if sent else b"[") + encoded(refused(503, TROUBLE, None).body) + b"\n]\n"]


def refused(status: int, message: str, retry_after_s: int | None) -> Refused:
    """An error answer; `retry_after_s` goes into a `RetryInfo` detail."""
    fallback = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "status": _STATUSES.get(status, fallback),
    }
    if retry_after_s is not None:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        error["details"] = [{"@type": kind, "retryDelay": f"{retry_after_s}s"}]
    return Refused({"error": error})


def _visible(reply: Reply) -> int:
    return reply.usage.output - reply.usage.reasoning


def _call_parts(reply: Reply) -> list[dict[str, Any]]:
    if reply.call is None:
        return []
    return [{"functionCall": {"name": reply.call.name, "args": dict(reply.call.arguments)}}]


def _response(reply: Reply, parts: list[dict[str, Any]], finish: str | None, visible: int) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": usage_object(reply.usage, visible),
        "modelVersion": reply.model,
        "responseId": reply.ident("", 22),
    }


GEMINI: Final = Dialect(
    whole=whole,
    frames=frames,
    trouble=trouble,
    refused=refused,
    key_headers=("x-goog-api-key",),
    key_parameter="key",
)
GEMINI_ARRAY: Final = replace(GEMINI, frames=array_frames, trouble=array_trouble, stream_type=JSON)
