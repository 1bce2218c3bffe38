"""The `google-genai` SDK with its own defaults: JSON and streamed conversation, a count, a refusal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google import genai  # type: ignore[import-not-found]
from google.genai import errors, types  # type: ignore[import-not-found]

Shell = Callable[[str, str], str]

MODEL = os.environ.get("ASSIZE_MODEL", "")
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def _task() -> str:
    return Path(os.environ["ASSIZE_INSTRUCTION"]).read_text("utf-8")


def _settings() -> Any:
    declared = types.FunctionDeclaration(
        name="run_shell_command", description="Runs a command.", parameters_json_schema=SCHEMA
    )
    return types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])


def _turn(parts: list[Any], last: Any) -> dict[str, Any]:
    """What a reply holds; `last` is the reply, or the last piece of a streamed one."""
    usage = last.usage_metadata
    return {
        "input": usage.prompt_token_count,
        "cached": usage.cached_content_token_count or 0,
        "output": (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        "text": "".join(part.text for part in parts if part.text and not part.thought),
        "end": last.candidates[0].finish_reason.value,
    }


def _parts(replies: list[Any]) -> list[Any]:
    return [
        part
        for reply in replies
        for candidate in reply.candidates or []
        for part in (candidate.content.parts if candidate.content else None) or []
    ]


def _conversation(
    shell: Shell, folder: str, generate: Callable[[list[Any]], list[Any]]
) -> list[dict[str, Any]]:
    """The two-turn conversation; `generate` gives a reply in one or more pieces."""
    contents = [types.Content(role="user", parts=[types.Part(text=_task())])]
    turns = []
    while True:
        replies = generate(contents)
        parts = _parts(replies)
        turns.append(_turn(parts, replies[-1]))
        asked = [part.function_call for part in parts if part.function_call]
        if not asked:
            return turns
        contents.append(types.Content(role="model", parts=parts))
        answers = [
            types.Part.from_function_response(
                name=call.name, response={"output": shell(folder, call.args["command"])}
            )
            for call in asked
        ]
        contents.append(types.Content(role="user", parts=answers))


def refused(model: str) -> dict[str, Any]:
    """The SDK's own error for a call that the relay refuses."""
    client = genai.Client()
    try:
        client.models.generate_content(model=model, contents=_task())
    except errors.APIError as error:
        reasons = [detail["reason"] for detail in error.details["error"]["details"]]
        return {
            "type": type(error).__name__,
            "status": error.code,
            "kind": error.status,
            "code": reasons[0].lower(),
        }
    return {"type": None}


def calls(shell: Shell) -> dict[str, Any]:
    """Everything one client object is asked to do, one call after the other."""
    client, settings = genai.Client(), _settings()

    def whole(contents: list[Any]) -> list[Any]:
        return [client.models.generate_content(model=MODEL, contents=contents, config=settings)]

    def streamed(contents: list[Any]) -> list[Any]:
        return list(client.models.generate_content_stream(model=MODEL, contents=contents, config=settings))

    return {
        "turns": [
            *_conversation(shell, "generate-json", whole),
            *_conversation(shell, "generate-stream", streamed),
        ],
        "counted": client.models.count_tokens(model=MODEL, contents=_task()).total_tokens,
        "models": [model.name for model in client.models.list()],
        "unpinned": refused("rehearsal-small"),
    }
