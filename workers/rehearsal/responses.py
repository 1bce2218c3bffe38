"""OpenAI Responses: requests read, replies written as JSON and as numbered events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from workers.rehearsal import openai
from workers.rehearsal.asked import Asked, Speaker, Tool, asked, limit_in, model_in, objects_in, text_of
from workers.rehearsal.dialect import TROUBLE, Dialect, sse
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import Finish, Reply, ToolCall, ToolKind, pieces
from workers.rehearsal.script import Usage

_BY_ASSISTANT: Final = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call"})
_CODE_MARK: Final = "tools.exec_command"


def read(body: Mapping[str, Any]) -> Asked:
    """A `POST /v1/responses` body; `CallError` for one that the provider would refuse.

    A stored conversation cannot be continued: the scripted provider keeps nothing.
    """
    model = model_in(body)
    if body.get("previous_response_id") is not None:
        raise CallError("previous_response_id: no such response is stored")
    raw = body.get("input")
    items = [{"role": "user", "content": raw}] if isinstance(raw, str) else objects_in(body, "input")
    if not items:
        raise CallError("input: a text or at least one item is required")
    instructions = text_of(body.get("instructions"))
    tools = objects_in(body, "tools")
    # To models that it knows, codex offers its tools in the input.
    late = [item for item in items if item.get("type") == "additional_tools"]
    offered = [*tools, *(tool for item in late for tool in objects_in(item, "tools"))]
    return asked(
        model,
        [(Speaker.SYSTEM, instructions), *map(_item, items)],
        [instructions, items, tools],
        tools=tuple(_tools(offered, None)),
        output_limit=limit_in(body, "max_output_tokens"),
        stream=body.get("stream") is True,
    )


def _item(item: Mapping[str, Any]) -> tuple[Speaker, str]:
    if item.get("type", "message") == "message":
        return openai.speaker_of(item.get("role")), text_of(item.get("content"))
    return Speaker.ASSISTANT if item["type"] in _BY_ASSISTANT else Speaker.OTHER, ""


def _tools(offered: Iterable[Mapping[str, Any]], namespace: str | None) -> Iterator[Tool]:
    for tool in offered:
        name, parameters = tool.get("name"), tool.get("parameters")
        if tool.get("type") == "local_shell":
            yield Tool("local_shell", {}, ToolKind.LOCAL_SHELL)
        elif not isinstance(name, str):
            continue
        elif tool.get("type") == "function":
            yield Tool(name, parameters if isinstance(parameters, dict) else {}, namespace=namespace)
        elif tool.get("type") == "custom" and _CODE_MARK in str(tool.get("description")):
            yield Tool(name, {}, ToolKind.CODE, namespace)
        elif tool.get("type") == "namespace" and namespace is None:
            yield from _tools(objects_in(tool, "tools"), name)


def usage_object(usage: Usage) -> dict[str, Any]:
    """The usage object; cached and reasoning tokens are subsets."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def whole(reply: Reply) -> dict[str, Any]:
    """The finished `response` object: `completed`, or `incomplete` at the output limit."""
    cut = reply.finish is Finish.LENGTH
    output = [] if _silent(reply) else [_message(reply, "incomplete" if cut else "completed", reply.text)]
    if reply.call is not None:
        output.append(_call(reply, reply.call, "completed"))
    return {
        **_response(reply, "incomplete" if cut else "completed"),
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": output,
        "usage": usage_object(reply.usage),
    }


def frames(reply: Reply, request: Asked) -> list[bytes]:
    """The stream of events, numbered from 0; the last one holds the finished response."""
    opened = _response(reply, "in_progress")
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
    ]
    if not _silent(reply):
        events += _message_events(reply)
    if reply.call is not None:
        events += _call_events(reply, reply.call, 0 if _silent(reply) else 1)
    last = whole(reply)
    events.append({"type": f"response.{last['status']}", "response": last})
    return [_event(event, number) for number, event in enumerate(events)]


def trouble(reply: Reply, sent: int) -> list[bytes]:
    """An error inside the stream: an `error` event, then `response.failed`."""
    failed = {
        **_response(reply, "failed"),
        "error": {"code": "server_error", "message": TROUBLE},
    }
    error = {"type": "error", "code": "server_error", "message": TROUBLE, "param": None}
    return [_event(error, sent), _event({"type": "response.failed", "response": failed}, sent + 1)]


def _event(event: Mapping[str, Any], number: int) -> bytes:
    return sse({**event, "sequence_number": number}, event["type"])


def _silent(reply: Reply) -> bool:
    return reply.call is not None and not reply.text


def _message_events(reply: Reply) -> Iterator[dict[str, Any]]:
    ident = reply.ident("msg_", 48)
    place = {"item_id": ident, "output_index": 0, "content_index": 0}
    done = "incomplete" if reply.finish is Finish.LENGTH else "completed"
    started = {**_message(reply, "in_progress", ""), "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": started}
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    for piece in pieces(reply.text):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": reply.text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(reply.text)}
    finished = _message(reply, done, reply.text)
    yield {"type": "response.output_item.done", "output_index": 0, "item": finished}


def _call_events(reply: Reply, call: ToolCall, index: int) -> Iterator[dict[str, Any]]:
    started = _call(reply, call, "in_progress")
    place = {"item_id": started["id"], "output_index": index}
    if call.kind is ToolKind.FUNCTION:
        name, field, last = "response.function_call_arguments", "arguments", {"name": call.name}
    else:
        name, field, last = "response.custom_tool_call_input", "input", {}
    text = started.get(field)
    item = started if text is None else {**started, field: ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    if text is not None:
        for piece in pieces(text):
            yield {"type": f"{name}.delta", **place, "delta": piece}
        yield {"type": f"{name}.done", **place, **last, field: text}
    item = _call(reply, call, "completed")
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _message(reply: Reply, status: str, text: str) -> dict[str, Any]:
    head = {"id": reply.ident("msg_", 48), "type": "message", "status": status}
    return {**head, "content": [_part(text)], "role": "assistant"}


def _call(reply: Reply, call: ToolCall, status: str) -> dict[str, Any]:
    """The item of a tool call, whole; only calls by arguments or by code are streamed in parts."""
    namespace = {} if call.namespace is None else {"namespace": call.namespace}
    named = {"call_id": reply.ident("call_", 24), "name": call.name, **namespace}
    if call.kind is ToolKind.LOCAL_SHELL:
        action = {"type": "exec", "command": call.arguments["command"], "env": {}}
        item = {"type": "local_shell_call", "call_id": named["call_id"], "action": action}
        return {"id": reply.ident("lsh_", 48), "status": status, **item}
    if call.kind is ToolKind.CODE:
        item = {"type": "custom_tool_call", "input": call.arguments["input"]}
        return {"id": reply.ident("ctc_", 48), "status": status, **item, **named}
    item = {"type": "function_call", "arguments": call.arguments_json}
    return {"id": reply.ident("fc_", 48), "status": status, **item, **named}


def _response(reply: Reply, status: str) -> dict[str, Any]:
    return {
        "id": reply.ident("resp_", 48),
        "object": "response",
        "created_at": reply.created_s,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": reply.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


RESPONSES: Final = Dialect(
    whole=whole,
    frames=frames,
    trouble=trouble,
    refused=openai.refused,
    key_headers=openai.KEY_HEADERS,
    request_id_header=openai.REQUEST_ID_HEADER,
)
