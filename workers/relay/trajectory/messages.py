"""Anthropic Messages: messages of a request, and an answer from its events or its one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workers.relay.trajectory.draft import Draft
from workers.relay.trajectory.loose import argument_text, mapping, objects, string, text_of
from workers.relay.trajectory.neutral import (
    Answer,
    Message,
    Request,
    Speaker,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_SPEAKERS: Final = {"system": Speaker.SYSTEM, "assistant": Speaker.AGENT}
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_RESULT: Final = "tool_result"
_DELTAS: Final = ("text", "thinking", "partial_json")


def request(body: Mapping[str, Any]) -> Request:
    """A request's messages and tools; `system` comes first."""
    system = Message(Speaker.SYSTEM, text_of(body.get("system")))
    messages = [_message(given) for given in objects(body.get("messages"))]
    return Request((system, *messages), tuple(_tools(body.get("tools"))))


def _message(given: Mapping[str, Any]) -> Message:
    speaker = _SPEAKERS.get(string(given.get("role")), Speaker.USER)
    content = given.get("content")
    if speaker is Speaker.AGENT:
        blocks = objects(content)
        calls = tuple(_call(block) for block in blocks if block.get("type") in _CALLS)
        return Message(speaker, text_of(content, noted=False), calls)
    results = [block for block in objects(content) if block.get("type") == _RESULT]
    rest = [part for part in content if part not in results] if isinstance(content, list) else content
    return Message(speaker, text_of(rest), results=tuple(map(_result, results)))


def _call(block: Mapping[str, Any]) -> ToolCall:
    return ToolCall(string(block.get("id")), string(block.get("name")), argument_text(block.get("input")))


def _result(block: Mapping[str, Any]) -> ToolResult:
    return ToolResult(string(block.get("tool_use_id")), "", text_of(block.get("content")))


def _tools(given: Any) -> Iterator[ToolDefinition]:
    for tool in objects(given):
        name, about = string(tool.get("name")), string(tool.get("description"))
        yield ToolDefinition(name, about, mapping(tool.get("input_schema")))


@dataclass
class _Block:
    """One content block while its deltas come in."""

    start: Mapping[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _DELTAS})

    def text(self, name: str) -> str:
        """What it began with and what was added to it."""
        return string(self.start.get(name)) + "".join(self.pieces[name])

    def arguments(self) -> str:
        """The arguments of a call: its deltas, or what it began with when there were none."""
        return "".join(self.pieces["partial_json"]) or argument_text(self.start.get("input"))


def answer(documents: Sequence[Mapping[str, Any]]) -> Answer:
    """The content blocks, put together from one object or from events."""
    draft, blocks = Draft(), dict[int, _Block]()
    for document in documents:
        if document.get("type") in ("message", "message_start"):
            message = mapping(document.get("message", document))
            draft.model = draft.model or string(message.get("model"))
            draft.finish = string(message.get("stop_reason")) or draft.finish
            blocks.update(enumerate(map(_Block, objects(message.get("content")))))
        else:
            draft.finish = string(mapping(document.get("delta")).get("stop_reason")) or draft.finish
            _event(blocks, document)
    for index in sorted(blocks):
        _add(draft, index, blocks[index])
    return draft.answer("\n")


def _event(blocks: dict[int, _Block], event: Mapping[str, Any]) -> None:
    kind, given = event.get("type"), event.get("index")
    index = given if type(given) is int else 0
    if kind == "content_block_start":
        blocks[index] = _Block(mapping(event.get("content_block")))
    elif kind == "content_block_delta":
        delta = mapping(event.get("delta"))
        block = blocks.setdefault(index, _Block({}))
        for name in _DELTAS:
            block.pieces[name].append(string(delta.get(name)))


def _add(draft: Draft, index: int, block: _Block) -> None:
    if block.start.get("type") in _CALLS:
        ident, name = string(block.start.get("id")), string(block.start.get("name"))
        draft.call(str(index)).add(ident, name, block.arguments())
    else:
        draft.text.append(block.text("text"))
        draft.reasoning.append(block.text("thinking"))
