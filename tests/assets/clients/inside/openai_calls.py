"""The `openai` SDK with its own defaults: four conversations, embeddings, the model list, a refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai  # type: ignore[import-not-found]

Shell = Callable[[str, str], str]

MODEL = os.environ.get("ASSIZE_MODEL", "")
FUNCTION = {
    "name": "bash",
    "description": "Runs a command.",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
RESPONSES_TOOLS = [{"type": "function", **FUNCTION}]


def _task() -> str:
    return Path(os.environ["ASSIZE_INSTRUCTION"]).read_text("utf-8")


def _usage(usage: Any, names: Sequence[str]) -> dict[str, Any]:
    """Input, cached input and output tokens; None where the SDK was given none."""
    if usage is None:
        return {"input": None, "cached": None, "output": None}
    details = getattr(usage, f"{names[0]}_details")
    return {
        "input": getattr(usage, names[0]),
        "cached": details.cached_tokens if details else 0,
        "output": getattr(usage, names[1]),
    }


def _chat(shell: Shell, folder: str, complete: Callable[..., Any]) -> list[dict[str, Any]]:
    """The two-turn conversation over chat completions; `complete` gives a finished completion."""
    messages: list[Any] = [{"role": "user", "content": _task()}]
    turns = []
    while True:
        reply = complete(model=MODEL, messages=messages, tools=CHAT_TOOLS)
        message = reply.choices[0].message
        usage = _usage(reply.usage, ("prompt_tokens", "completion_tokens"))
        turns.append({**usage, "text": message.content, "end": reply.choices[0].finish_reason})
        if not message.tool_calls:
            return turns
        messages.append(message)
        for call in message.tool_calls:
            printed = shell(folder, json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": printed})


def _chat_streamed(client: Any) -> Callable[..., Any]:
    """A finished completion from the SDK's stream helper, which then reports usage."""

    def complete(**request: Any) -> Any:
        with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
            return stream.get_final_completion()

    return complete


def _responses(shell: Shell, folder: str, respond: Callable[..., Any]) -> list[dict[str, Any]]:
    """The two-turn conversation over Responses, the whole of it sent each time."""
    items: list[Any] = [{"role": "user", "content": _task()}]
    turns = []
    while True:
        reply = respond(model=MODEL, input=items, tools=RESPONSES_TOOLS)
        usage = _usage(reply.usage, ("input_tokens", "output_tokens"))
        turns.append({**usage, "text": reply.output_text, "end": reply.status})
        asked = [item for item in reply.output if item.type == "function_call"]
        if not asked:
            return turns
        items += reply.output
        for call in asked:
            printed = shell(folder, json.loads(call.arguments)["command"])
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": printed})


def _responses_streamed(client: Any) -> Callable[..., Any]:
    def respond(**request: Any) -> Any:
        with client.responses.stream(**request) as stream:
            return stream.get_final_response()

    return respond


def _plain_stream(client: Any) -> dict[str, Any]:
    """A stream as most programs ask for it: without usage, which the meter must add and hide again."""
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": _task()}], stream=True, tools=CHAT_TOOLS
        )
    )
    text = "".join(part.delta.content or "" for chunk in chunks for part in chunk.choices)
    return {
        "text": text,
        "withUsage": sum(chunk.usage is not None for chunk in chunks),
        "withoutChoices": sum(not chunk.choices for chunk in chunks),
    }


def _embeddings(client: Any) -> dict[str, Any]:
    reply = client.embeddings.create(model=MODEL, input=["one", "two"])
    return {
        "input": reply.usage.prompt_tokens,
        "cached": 0,
        "output": 0,
        "vectors": len(reply.data),
        "numbers": [isinstance(value, float) for value in reply.data[0].embedding[:2]],
    }


def refused(model: str) -> dict[str, Any]:
    """The SDK's own error for a call that the relay refuses."""
    client = openai.OpenAI()
    try:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": _task()}])
    except openai.APIStatusError as error:
        return {"type": type(error).__name__, "status": error.status_code, "code": error.code}
    return {"type": None}


def calls(shell: Shell) -> dict[str, Any]:
    """Everything one client object is asked to do, one call after the other."""
    client = openai.OpenAI()
    return {
        "turns": [
            *_chat(shell, "chat-json", client.chat.completions.create),
            *_chat(shell, "chat-stream", _chat_streamed(client)),
            *_responses(shell, "responses-json", client.responses.create),
            *_responses(shell, "responses-stream", _responses_streamed(client)),
        ],
        "plainStream": _plain_stream(client),
        "embeddings": _embeddings(client),
        "models": [model.id for model in client.models.list()],
        "unpinned": refused("rehearsal-small"),
    }
