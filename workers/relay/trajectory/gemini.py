"""Google generateContent: contents of a request, and an answer from its one response or all of a stream.

Field names come in two spellings in requests, and calls often have no id: results are then matched by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workers.relay.trajectory.draft import Draft
from workers.relay.trajectory.loose import compact, either, first_choice, mapping, objects, string, text_of
from workers.relay.trajectory.neutral import (
    Answer,
    Message,
    Request,
    Speaker,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_CALL: Final = ("functionCall", "function_call")
_RESULT: Final = ("functionResponse", "function_response")
_SYSTEM: Final = ("systemInstruction", "system_instruction")
_DECLARED: Final = ("functionDeclarations", "function_declarations")
_SCHEMA: Final = ("parameters", "parametersJsonSchema", "parameters_json_schema")


def request(body: Mapping[str, Any]) -> Request:
    """A request's contents and function declarations; the system instruction comes first."""
    given = either(body, *_SYSTEM)
    system = text_of(given.get("parts") if isinstance(given, dict) else given)
    messages = [_message(content) for content in _several(body.get("contents"))]
    return Request((Message(Speaker.SYSTEM, system), *messages), tuple(_tools(body.get("tools"))))


def _several(value: Any) -> list[dict[str, Any]]:
    """A list of objects, for which this API also takes a single one."""
    return objects(value if isinstance(value, list) else [value])


def _message(content: Mapping[str, Any]) -> Message:
    parts = _several(content.get("parts"))
    if content.get("role") == "model":
        calls = tuple(_call(mapping(found)) for part in parts if (found := either(part, *_CALL)))
        said = [part for part in parts if not part.get("thought")]
        return Message(Speaker.AGENT, text_of(said, noted=False), calls)
    results = tuple(_result(mapping(found)) for part in parts if (found := either(part, *_RESULT)))
    rest = [part for part in parts if either(part, *_RESULT) is None]
    return Message(Speaker.USER, text_of(rest), results=results)


def _call(given: Mapping[str, Any]) -> ToolCall:
    arguments = compact({} if given.get("args") is None else given["args"])
    return ToolCall(string(given.get("id")), string(given.get("name")), arguments)


def _result(given: Mapping[str, Any]) -> ToolResult:
    return ToolResult(string(given.get("id")), string(given.get("name")), compact(given.get("response")))


def _tools(given: Any) -> Iterator[ToolDefinition]:
    for tool in objects(given):
        for function in objects(either(tool, *_DECLARED)):
            name, about = string(function.get("name")), string(function.get("description"))
            yield ToolDefinition(name, about, mapping(either(function, *_SCHEMA)))


def answer(documents: Sequence[Mapping[str, Any]]) -> Answer:
    """The first candidate: the parts of every response, one after the other."""
    draft = Draft()
    for document in documents:
        draft.model = draft.model or string(document.get("modelVersion"))
        candidate = first_choice(document.get("candidates"))
        draft.finish = string(candidate.get("finishReason")) or draft.finish
        for part in objects(mapping(candidate.get("content")).get("parts")):
            _add(draft, part)
    return draft.answer()


def _add(draft: Draft, part: Mapping[str, Any]) -> None:
    called = either(part, *_CALL)
    if isinstance(called, dict):
        call = _call(called)
        draft.call(str(len(draft.calls))).add(call.id, call.name, call.arguments)
    else:
        (draft.reasoning if part.get("thought") else draft.text).append(string(part.get("text")))
