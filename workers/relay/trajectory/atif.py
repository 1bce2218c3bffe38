"""The trajectory of a lane as an ATIF-v1.8 document, the interchange form of agent trajectories.

Field names and rules are those of that format's version 1.8 (reference/harbor.md section 6): unknown keys
are forbidden except in `extra`, step ids count from 1, a result names a call of its own step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from workers.relay.routes import Purpose
from workers.relay.trajectory.calls import Call, Calls, Record, calls_of
from workers.relay.trajectory.metrics import final_metrics
from workers.relay.trajectory.steps import step_document, tool_definition
from workers.relay.trajectory.texts import head
from workers.relay.trajectory.threads import Thread, threads_of
from workers.relay.wire.family import Family

SCHEMA_VERSION: Final = "ATIF-v1.8"
LISTED: Final = 200
"""Refused and failed calls that are listed one by one; the counts are of all of them."""

_NOTES: Final = (
    "Derived from the transcript of the metering relay, not from anything the agent wrote. Costs are list "
    "prices on the run date; a sum is missing when part of it is not known exactly. Steps have no time of "
    "day: extra.at_us counts microseconds from the opening of the relay's lane."
)
_NOTE_THREADS: Final = (
    " Other conversations of the same run (titles, summaries, sub-agents) are embedded; which step began "
    "them is not known."
)
_MESSAGE_BYTES: Final = 2 << 10
_NOTHING: Final = "No model call was answered."


def trajectory(
    records: Iterable[Record], *, session_id: str, agent_name: str, agent_version: str
) -> dict[str, Any]:
    """The ATIF document of a transcript's records (as `workers.relay.transcript.read` gives them).

    The root is the conversation with the most answers, of equals the one with tools, then the first one; its
    money is that of the whole run. Every value is plain JSON; amounts are numbers with at most nine decimals.
    Request and answer bytes of any content are taken; they never raise.
    """
    calls = calls_of(records)
    threads = threads_of(calls)
    spoken = [thread for thread in threads if thread.steps]
    main = max(spoken, key=_weight, default=Thread(None))
    others = [thread for thread in spoken if thread is not main]
    agent = {"name": agent_name, "version": agent_version}
    paid = [call for call in calls.made if call.purpose is Purpose.GENERATE]
    found = {
        **_document(main, agent, session_id, 1, paid),
        "notes": _NOTES + (_NOTE_THREADS if others else ""),
        "extra": _extra(calls, [call for thread in threads for call in thread.unanswered]),
    }
    if others:
        found["subagent_trajectories"] = [
            _document(thread, agent, session_id, number, thread.calls)
            for number, thread in enumerate(others, 2)
        ]
    return found


def encode(document: dict[str, Any]) -> bytes:
    """The document as a UTF-8 JSON file with a line end."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _weight(thread: Thread) -> tuple[int, bool]:
    return sum(step.answer is not None for step in thread.steps), bool(thread.tools)


def _document(
    thread: Thread, agent: dict[str, Any], session_id: str, number: int, paid: Sequence[Call]
) -> dict[str, Any]:
    """One conversation as a document of its own."""
    models = Counter(call.model for call in thread.calls)
    steps = [step_document(step, step_id) for step_id, step in enumerate(thread.steps, 1)]
    described = dict(agent)
    if models:
        described["model_name"] = models.most_common(1)[0][0]
    if thread.tools:
        described["tool_definitions"] = [tool_definition(tool) for tool in thread.tools.values()]
    # The format wants at least one step.
    steps = steps or [{"step_id": 1, "source": "system", "message": _NOTHING}]
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": session_id,
        "trajectory_id": f"{session_id}:{number}",
        "agent": described,
        "steps": steps,
        "final_metrics": final_metrics(thread.calls, paid, len(steps)),
    }


def _extra(calls: Calls, unanswered: Sequence[Call]) -> dict[str, Any]:
    """What happened beside the steps: refused requests, calls that gave no answer, embeddings."""
    refused = [
        {
            "call": one.call,
            "at_us": one.at_us,
            "code": one.code,
            "message": head(one.message, _MESSAGE_BYTES),
        }
        for one in calls.denied[:LISTED]
    ]
    return {
        "denied_calls": len(calls.denied),
        "denied": refused,
        "unanswered_calls": len(unanswered),
        "unanswered": [_failure(call) for call in unanswered[:LISTED]],
        "embedding_calls": sum(call.family is Family.OPENAI_EMBEDDINGS for call in calls.made),
    }


def _failure(call: Call) -> dict[str, Any]:
    given = {
        "status": call.status,
        "fault": call.end.get("fault"),
        "problem": call.end.get("problem"),
        "unfinished": call.ended_us is None,
    }
    shown = {name: value for name, value in given.items() if value}
    return {"call": call.number, "at_us": call.started_us, "model": call.model, **shown}
