"""The `anthropic` SDK with its own defaults: JSON and streamed conversation, a count, a refusal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic  # type: ignore[import-not-found]

Shell = Callable[[str, str], str]

MODEL = os.environ.get("ASSIZE_MODEL", "")
MAX_TOKENS = 1000
TOOLS = [
    {
        "name": "bash",
        "description": "Runs a command.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    }
]


def _task() -> str:
    return Path(os.environ["ASSIZE_INSTRUCTION"]).read_text("utf-8")


def _turn(reply: Any) -> dict[str, Any]:
    usage = reply.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return {
        "input": usage.input_tokens + cached + written,
        "cached": cached,
        "output": usage.output_tokens,
        "text": "".join(block.text for block in reply.content if block.type == "text"),
        "end": reply.stop_reason,
    }


def _conversation(shell: Shell, folder: str, create: Callable[..., Any]) -> list[dict[str, Any]]:
    """The two-turn conversation; `create` gives a finished message."""
    messages: list[Any] = [{"role": "user", "content": _task()}]
    turns = []
    while True:
        reply = create(model=MODEL, max_tokens=MAX_TOKENS, messages=messages, tools=TOOLS)
        turns.append(_turn(reply))
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": shell(folder, block.input["command"]),
            }
            for block in reply.content
            if block.type == "tool_use"
        ]
        if not results:
            return turns
        messages += [
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": results},
        ]


def _streamed(client: Any) -> Callable[..., Any]:
    def create(**request: Any) -> Any:
        with client.messages.stream(**request) as stream:
            return stream.get_final_message()

    return create


def refused(model: str) -> dict[str, Any]:
    """The SDK's own error for a call that the relay refuses."""
    client = anthropic.Anthropic()
    try:
        client.messages.create(
            model=model, max_tokens=MAX_TOKENS, messages=[{"role": "user", "content": _task()}]
        )
    except anthropic.APIStatusError as error:
        found = error.body["error"]
        return {
            "type": type(error).__name__,
            "status": error.status_code,
            "code": found["code"],
            "kind": found["type"],
        }
    return {"type": None}


def calls(shell: Shell) -> dict[str, Any]:
    """Everything one client object is asked to do, one call after the other."""
    client = anthropic.Anthropic()
    counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": _task()}])
    return {
        "turns": [
            *_conversation(shell, "messages-json", client.messages.create),
            *_conversation(shell, "messages-stream", _streamed(client)),
        ],
        "counted": counted.input_tokens,
        "models": [model.id for model in client.models.list()],
        "unpinned": refused("rehearsal-small"),
    }
