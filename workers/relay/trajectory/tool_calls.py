"""The tool calls of a lane with their results, for the evidence file of that role."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from workers.relay.trajectory.calls import Record, calls_of
from workers.relay.trajectory.steps import call_ids
from workers.relay.trajectory.texts import capped, head
from workers.relay.trajectory.threads import Step, threads_of

RESULT_HEAD_BYTES: Final = 2 << 10


def tool_calls(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Every tool call that a model made, in the order of the calls; strings and integers only.

    `call` is the number of the model call in the transcript, `thread` that of its conversation from 1.
    `arguments` is the text the model wrote, at most 64 KiB of it (`argumentsBytes` is the full size).
    `result` is what a later request gave back: full size, SHA-256 and first 2 KiB; null when none did.
    Calls that only stood in a request, as part of a history the agent brought, are not among them.
    """
    threads = threads_of(calls_of(records))
    found = [
        (step.call.number, entry)
        for number, thread in enumerate(threads, 1)
        for step in thread.steps
        if step.answer is not None
        for entry in _entries(step, number)
    ]
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def _entries(step: Step, thread: int) -> Iterator[dict[str, Any]]:
    for position, (made, ident) in enumerate(zip(step.tool_calls, call_ids(step), strict=True)):
        result = step.results.get(position)
        yield {
            "call": step.call.number,
            "thread": thread,
            "id": ident,
            "name": made.name,
            "arguments": capped(made.arguments)[0],
            "argumentsBytes": len(made.arguments.encode("utf-8")),
            "model": step.call.model,
            "result": None if result is None else _shown(result.text),
        }


def _shown(text: str) -> dict[str, Any]:
    raw = text.encode("utf-8")
    return {
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "head": head(text, RESULT_HEAD_BYTES),
    }
