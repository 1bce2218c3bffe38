"""What a request asks for, whatever its wire format: the neutral side of reading."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import ToolKind, compact


class Speaker(StrEnum):
    """Who an item of the history comes from; OTHER is a tool result or a note."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    OTHER = "other"


@dataclass(frozen=True)
class Tool:
    """One tool on offer; `schema` is the JSON schema of its arguments, empty when there is none."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str | None = None


@dataclass(frozen=True)
class Asked:
    """One generation request.

    `task`: text of the user messages before the first assistant turn; `opening`: the same with the system
    texts before it. `turns`: assistant turns so far; neighbouring assistant items are one turn.
    `output_limit`: tokens, None when unlimited. `prompt_bytes`: size of all that the model would read.
    `seed`: SHA-256 of the history, hex. `usage_chunk`: the stream ends with the usage (OpenAI chat only).
    """

    model: str
    stream: bool
    task: str
    opening: str
    turns: int
    tools: tuple[Tool, ...]
    output_limit: int | None
    prompt_bytes: int
    seed: str
    usage_chunk: bool = False


@dataclass(frozen=True)
class History:
    """A request's history, item by item, with what `Asked` needs of it."""

    turns: int
    task: str
    opening: str


def read_history(items: Iterable[tuple[Speaker, str]]) -> History:
    """Count the assistant's turns and collect the texts that stand before the first of them."""
    turns, before = 0, Speaker.OTHER
    system: list[str] = []
    task: list[str] = []
    for speaker, text in items:
        if speaker is Speaker.ASSISTANT and before is not Speaker.ASSISTANT:
            turns += 1
        if turns == 0 and speaker is Speaker.USER:
            task.append(text)
        elif turns == 0 and speaker is Speaker.SYSTEM:
            system.append(text)
        before = speaker
    return History(turns, "\n".join(task), "\n".join([*system, *task]))


def asked(
    model: str,
    items: Iterable[tuple[Speaker, str]],
    prompt: Sequence[object],
    *,
    tools: tuple[Tool, ...],
    output_limit: int | None,
    stream: bool,
    usage_chunk: bool = False,
) -> Asked:
    """Put a request together; `prompt` is every part of the body that the model would read."""
    history = read_history(items)
    raw = "\n".join(compact(part) for part in prompt).encode("utf-8", "surrogatepass")
    seed = hashlib.sha256(raw).hexdigest()
    return Asked(
        model=model,
        stream=stream,
        task=history.task,
        opening=history.opening,
        turns=history.turns,
        tools=tools,
        output_limit=output_limit,
        prompt_bytes=len(raw),
        seed=seed,
        usage_chunk=usage_chunk,
    )


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the `text` of its parts; other parts have none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def model_in(body: Mapping[str, Any]) -> str:
    """The body's `model`; `CallError` when it is missing or no text."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise CallError("model: a model name is required")
    return model


def objects_in(body: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """The list of objects under the first of `names` that is present; `CallError` for anything else."""
    found: Any = next((body[name] for name in names if body.get(name) is not None), [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise CallError(f"{names[0]}: a list of objects is expected")
    return found


def limit_in(body: Mapping[str, Any], *names: str) -> int | None:
    """The output limit in tokens under the first of `names` that is present; `CallError` below 1."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CallError(f"{name}: a whole number of at least 1 is expected")
        return value
    return None


def single_choice(body: Mapping[str, Any], name: str) -> None:
    """`CallError` unless the request asks for one choice: a script has one reply per turn."""
    if body.get(name) not in (None, 1):
        raise CallError(f"{name}: the scripted provider gives one choice")
