"""The steps of an ATIF trajectory."""

from __future__ import annotations

from typing import Any

from workers.relay.trajectory.loose import compact
from workers.relay.trajectory.metrics import step_metrics
from workers.relay.trajectory.neutral import Answer, Speaker, ToolCall, ToolDefinition, ToolResult
from workers.relay.trajectory.texts import TEXT_LIMIT_BYTES, capped
from workers.relay.trajectory.threads import Step
from workers.relay.wire.body import parse_body
from workers.relay.wire.errors import WireError


def call_ids(step: Step) -> list[str]:
    """An id for every tool call of a step: its own, or one made up where that is missing or used twice."""
    found: list[str] = []
    for position, made in enumerate(step.tool_calls):
        own = made.id if made.id and made.id not in found else f"call-{step.call.number}-{position}"
        found.append(own)
    return found


def step_document(step: Step, number: int) -> dict[str, Any]:
    """One step. What is cut off is named in an `extra`, with the full size in bytes.

    `extra.call` is the number of the model call in the transcript, `extra.at_us` microseconds since the lane
    was opened: the transcript has no clock time.
    """
    text, size = capped(step.text)
    ended = step.call.ended_us if step.answer is not None else None
    extra: dict[str, Any] = {
        "call": step.call.number,
        "at_us": step.call.started_us if ended is None else ended,
    }
    if size is not None:
        extra["cut"] = {"message": size}
    found: dict[str, Any] = {"step_id": number, "source": step.speaker.value, "message": text}
    if step.answer is not None:
        _add_answer(found, extra, step, step.answer)
    elif step.speaker is Speaker.AGENT:
        found["llm_call_count"] = 0
        extra["from_request"] = True
    idents = call_ids(step)
    if step.tool_calls:
        found["tool_calls"] = list(map(_call, step.tool_calls, idents))
    results = [_result(result, idents[position]) for position, result in sorted(step.results.items())]
    results += [_result(result, None) for result in step.stray]
    if results:
        found["observation"] = {"results": results}
    return {**found, "extra": extra}


def _add_answer(found: dict[str, Any], extra: dict[str, Any], step: Step, answer: Answer) -> None:
    """What only a model's answer has."""
    call = step.call
    found["model_name"] = call.model
    found["llm_call_count"] = 1
    found["metrics"] = step_metrics(call)
    if answer.reasoning is not None:
        found["reasoning_content"], size = capped(answer.reasoning)
        if size is not None:
            extra.setdefault("cut", {})["reasoning_content"] = size
    given = {
        "finish": answer.finish or call.end.get("finish"),
        "served_model": answer.model if answer.model != call.model else None,
        "fault": call.end.get("fault"),
        "problem": call.end.get("problem"),
        "flags": call.end.get("flags"),
        "omitted": call.omitted,
        "unfinished": call.ended_us is None,
    }
    extra.update((name, value) for name, value in given.items() if value)


def _call(made: ToolCall, ident: str) -> dict[str, Any]:
    """A tool call; arguments that are no JSON object stand under `input` as they are."""
    text, size = capped(made.arguments)
    found: dict[str, Any] = {"tool_call_id": ident, "function_name": made.name}
    try:
        if size is None:
            return {**found, "arguments": parse_body(text.encode("utf-8") or b"{}")}
    except WireError:
        pass
    extra: dict[str, Any] = {"arguments_form": "text"}
    if size is not None:
        extra["cut"] = {"arguments": size}
    return {**found, "arguments": {"input": text}, "extra": extra}


def _result(result: ToolResult, ident: str | None) -> dict[str, Any]:
    """A result; `ident` None for one whose call is not in the trajectory."""
    text, size = capped(result.text)
    found: dict[str, Any] = {"content": text}
    extra: dict[str, Any] = {}
    if ident is None:
        extra["unmatched"] = result.call_id or result.name
    else:
        found["source_call_id"] = ident
    if size is not None:
        extra["cut"] = {"content": size}
    return {**found, "extra": extra} if extra else found


def tool_definition(tool: ToolDefinition) -> dict[str, Any]:
    """A tool on offer in the shape of OpenAI's function tools, as ATIF wants it; a huge schema stays out."""
    about, _ = capped(tool.description)
    function: dict[str, Any] = {"name": tool.name}
    if about:
        function["description"] = about
    if tool.parameters and len(compact(tool.parameters)) <= TEXT_LIMIT_BYTES:
        function["parameters"] = dict(tool.parameters)
    return {"type": "function", "function": function}
