"""Requests and answers without their wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Speaker(StrEnum):
    """Who a message of a request is from; a tool's result counts as the user's."""

    SYSTEM = "system"
    USER = "user"
    AGENT = "agent"


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it: `arguments` is text, mostly JSON; `id` is empty where none was given."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolResult:
    """What a call gave. `call_id` is empty where only the tool's `name` says which call is meant."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True)
class ToolDefinition:
    """A tool on offer; `parameters` is the JSON schema of its arguments, empty when there is none."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer of a model, of several choices the first. `finish` is the provider's own word."""

    text: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    model: str | None = None

    @property
    def empty(self) -> bool:
        """Whether the model said nothing at all."""
        return not (self.text or self.reasoning or self.tool_calls)


@dataclass(frozen=True)
class Message:
    """One message of a request, comparable with the same message in a later request.

    What may change while the message stays the same is not in it: cache markers, thinking blocks, whether
    a text is a string or a list of one part.
    """

    speaker: Speaker
    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it that is shown."""
        return not (self.text or self.calls or self.results)


@dataclass(frozen=True)
class Request:
    """One request: the whole conversation as sent, system prompt first, and the tools on offer."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
