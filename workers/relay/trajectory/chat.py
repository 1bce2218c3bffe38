"""OpenAI chat completions: messages of a request, and an answer from its chunks or its one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workers.relay.trajectory.draft import Draft, DraftCall
from workers.relay.trajectory.loose import (
    argument_text,
    either,
    first_choice,
    mapping,
    objects,
    string,
    text_of,
)
from workers.relay.trajectory.neutral import (
    Answer,
    Message,
    Request,
    Speaker,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_SYSTEM: Final = ("system", "developer")
_REASONING: Final = ("reasoning_content", "reasoning")


def request(body: Mapping[str, Any]) -> Request:
    """A request's messages and tools."""
    messages = [_message(given) for given in objects(body.get("messages"))]
    tools = [*_tools(body.get("tools")), *_functions(body.get("functions"))]
    return Request(tuple(messages), tuple(tools))


def _message(given: Mapping[str, Any]) -> Message:
    role, content = given.get("role"), given.get("content")
    if role == "assistant":
        return Message(Speaker.AGENT, text_of(content, noted=False), tuple(_calls(given)))
    if role in ("tool", "function"):
        named = ToolResult(string(given.get("tool_call_id")), string(given.get("name")), text_of(content))
        return Message(Speaker.USER, "", results=(named,))
    return Message(Speaker.SYSTEM if role in _SYSTEM else Speaker.USER, text_of(content))


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    for given in objects(message.get("tool_calls")):
        name, arguments = _function(given)
        yield ToolCall(string(given.get("id")), name, arguments)
    old = message.get("function_call")
    if isinstance(old, dict):
        yield ToolCall("", string(old.get("name")), argument_text(old.get("arguments")))


def _function(given: Mapping[str, Any]) -> tuple[str, str]:
    """Name and arguments of a function call, or of a custom call with its free text."""
    held = mapping(either(given, "function", "custom"))
    return string(held.get("name")), argument_text(either(held, "arguments", "input"))


def _tools(given: Any) -> Iterator[ToolDefinition]:
    for tool in objects(given):
        yield from _functions([either(tool, "function", "custom")])


def _functions(given: Any) -> Iterator[ToolDefinition]:
    for function in objects(given):
        name, about = string(function.get("name")), string(function.get("description"))
        yield ToolDefinition(name, about, mapping(function.get("parameters")))


def answer(documents: Sequence[Mapping[str, Any]]) -> Answer:
    """The first choice, put together from one object or from chunks."""
    draft = Draft()
    for document in documents:
        draft.model = draft.model or string(document.get("model"))
        choice = first_choice(document.get("choices"))
        draft.finish = string(choice.get("finish_reason")) or draft.finish
        _add(draft, mapping(choice.get("delta")), torn=True)
        _add(draft, mapping(choice.get("message")), torn=False)
    return draft.answer()


def _add(draft: Draft, piece: Mapping[str, Any], *, torn: bool) -> None:
    """Take in a delta, whose calls may go on with earlier ones (`torn`), or a whole message."""
    draft.text.append(text_of(piece.get("content"), noted=False) or string(piece.get("refusal")))
    draft.reasoning.append(string(either(piece, *_REASONING)))
    for given in objects(piece.get("tool_calls")):
        name, arguments = _function(given)
        slot = _slot(draft, given, name) if torn else draft.call(f"new {len(draft.calls)}")
        slot.add(string(given.get("id")), name, arguments)
    old = piece.get("function_call")
    if isinstance(old, dict):
        draft.call("old").add("", string(old.get("name")), argument_text(old.get("arguments")))


def _slot(draft: Draft, given: Mapping[str, Any], name: str) -> DraftCall:
    """The call that a piece belongs to: by index, by id, or the last one when it has neither and no name."""
    index, ident = given.get("index"), string(given.get("id"))
    if type(index) is int:
        return draft.call(f"index {index}")
    if ident:
        return draft.call(f"id {ident}")
    if name or not draft.calls:
        return draft.call(f"new {len(draft.calls)}")
    return next(reversed(draft.calls.values()))
