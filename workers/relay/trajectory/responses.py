"""OpenAI Responses: items of a request, and an answer from its events or its one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workers.relay.trajectory.draft import Draft
from workers.relay.trajectory.loose import argument_text, either, mapping, objects, string, text_of
from workers.relay.trajectory.neutral import (
    Answer,
    Message,
    Request,
    Speaker,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_SPEAKERS: Final = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.AGENT,
}
_ENDS: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
_DELTAS: Final = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_ARGUMENTS: Final = ("arguments", "input", "action", "operation")


def request(body: Mapping[str, Any]) -> Request:
    """A request's items and tools; `instructions` are its system prompt.

    Neighbouring items of the agent are one message, for an answer is several items.
    """
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    system = Message(Speaker.SYSTEM, text_of(body.get("instructions")))
    messages = _joined(_message(item) for item in items)
    return Request((system, *messages), tuple(_tools(body.get("tools"))))


def _message(item: Mapping[str, Any]) -> Message:
    kind = string(item.get("type")) or "message"
    if kind == "message":
        speaker = _SPEAKERS.get(string(item.get("role")), Speaker.USER)
        return Message(speaker, text_of(item.get("content"), noted=speaker is not Speaker.AGENT))
    if kind == "reasoning":
        return Message(Speaker.AGENT, "")
    call = _call(item)
    if call is not None:
        return Message(Speaker.AGENT, "", (call,))
    if kind.endswith("_output"):
        output = either(item, "output", "tools")
        result = ToolResult(_ident(item), "", text_of(output))
        return Message(Speaker.USER, "", results=(result,))
    return Message(Speaker.USER, text_of([item]))


def _joined(given: Iterable[Message]) -> list[Message]:
    found: list[Message] = []
    for message in given:
        last = found[-1] if found else None
        if last is not None and last.speaker is message.speaker is Speaker.AGENT:
            text = "\n".join(text for text in (last.text, message.text) if text)
            found[-1] = Message(Speaker.AGENT, text, last.calls + message.calls)
        else:
            found.append(message)
    return found


def _ident(item: Mapping[str, Any]) -> str:
    return string(item.get("call_id")) or string(item.get("id"))


def _call(item: Mapping[str, Any]) -> ToolCall | None:
    """The call of an item that is one, whoever runs it; a tool without a name is called by its kind."""
    kind = string(item.get("type"))
    if not kind.endswith("_call"):
        return None
    name = _named(string(item.get("namespace")), string(item.get("name")) or kind.removesuffix("_call"))
    return ToolCall(_ident(item), name, argument_text(either(item, *_ARGUMENTS)))


def _named(namespace: str, name: str) -> str:
    """A tool's name with the namespace it was offered in, for two of them may share a name."""
    return f"{namespace}.{name}" if namespace else name


def _tools(given: Any, namespace: str = "") -> Iterator[ToolDefinition]:
    for tool in objects(given):
        own = string(tool.get("name")) or string(tool.get("type"))
        if tool.get("type") == "namespace" and not namespace:  # they do not nest
            yield from _tools(tool.get("tools"), own)
        else:
            name = _named(namespace, own)
            yield ToolDefinition(name, string(tool.get("description")), mapping(tool.get("parameters")))


@dataclass
class _Slot:
    """One item of the output while its events come in; `item` is the last that an event gave as a whole."""

    item: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "message"
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> Mapping[str, Any]:
        """The item; without its closing event it is made of its pieces."""
        if not self.pieces:
            return self.item
        kind, text = string(self.item.get("type")) or self.kind, "".join(self.pieces)
        if kind == "reasoning":
            return {**self.item, "type": kind, "summary": [{"text": text}], "content": None}
        if kind == "message":
            return {**self.item, "type": kind, "content": text}
        return {**self.item, "type": kind, "arguments": text}


def answer(documents: Sequence[Mapping[str, Any]]) -> Answer:
    """The output, from the finished response, or as far as its events go."""
    draft, slots = Draft(), dict[int, _Slot]()
    output: Sequence[Mapping[str, Any]] = ()
    for document in documents:
        # An event holds the response; without streaming the document is the response.
        held = document.get("response")
        response = held if isinstance(held, dict) else document
        draft.model = draft.model or string(response.get("model"))
        draft.finish = _finish(response) or draft.finish
        output = objects(response.get("output")) or output
        _event(slots, document)
    _add(draft, output or [slots[index].whole() for index in sorted(slots)])
    return draft.answer("\n")


def _finish(response: Mapping[str, Any]) -> str:
    status = string(response.get("status"))
    reason = string(mapping(response.get("incomplete_details")).get("reason"))
    return (reason or status) if status in _ENDS else ""


def _event(slots: dict[int, _Slot], event: Mapping[str, Any]) -> None:
    kind, index = string(event.get("type")), event.get("output_index")
    if kind not in _DELTAS and not kind.startswith("response.output_item."):
        return
    slot = slots.setdefault(index if type(index) is int else 0, _Slot())
    if kind in _DELTAS:
        slot.kind = _DELTAS[kind]
        slot.pieces.append(string(event.get("delta")))
        return
    slot.item = mapping(event.get("item"))
    if kind == "response.output_item.done":
        slot.pieces.clear()


def _add(draft: Draft, items: Iterable[Mapping[str, Any]]) -> None:
    for number, item in enumerate(items):
        kind = string(item.get("type"))
        call = _call(item)
        if call is not None:
            draft.call(str(number)).add(call.id, call.name, call.arguments)
        elif kind == "message":
            draft.text.append(text_of(item.get("content"), noted=False))
        elif kind == "reasoning":
            draft.reasoning.extend(text_of(item.get(name), noted=False) for name in ("summary", "content"))
