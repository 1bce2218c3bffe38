"""A lane that is written down call by call, and the rules of ATIF-v1.8 that a document could break."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evidence.transcript import Kind, read
from workers.relay.trajectory.atif import encode, trajectory
from workers.relay.transcript import Transcript
from workers.relay.wire.family import Family

MODEL = "model-1"
USAGE = {
    "input": 100,
    "cache_read": 20,
    "cache_write_5m": 3,
    "cache_write_1h": 0,
    "output": 7,
    "audio_input": 0,
    "audio_output": 0,
    "calls": {},
}

_ROOT = {"schema_version", "session_id", "trajectory_id", "agent", "steps"} | {
    *("notes", "final_metrics", "continued_trajectory_ref", "subagent_trajectories", "extra")
}
_AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
_AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
_STEP = {"step_id", "timestamp", "source", "message", "observation", "llm_call_count"} | {
    *("is_copied_context", "extra"),
    *_AGENT_ONLY,
}
_CALL = {"tool_call_id", "function_name", "arguments", "extra"}
_RESULT = {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
_METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"} | {
    *("prompt_token_ids", "completion_token_ids", "logprobs", "extra")
}
_FINAL = {"total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd"} | {
    *("total_steps", "extra")
}


class Lane:
    """A transcript in the making; every method appends what the relay would."""

    def __init__(self, folder: Path, family: Family) -> None:
        self.family = family
        self._transcript = Transcript(folder, "lane")
        self._transcript.add(Kind.OPEN, 0, {})
        self._calls = 0

    def ask(
        self,
        body: Mapping[str, Any] | bytes,
        *,
        family: Family | None = None,
        purpose: str = "generate",
        keep: bool = True,
    ) -> int:
        """An admitted request; its number."""
        self._calls += 1
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        spoken = family or self.family
        shown: dict[str, Any] = {"method": "POST", "path": "/x", "family": spoken.value, "headers": {}}
        self._transcript.add(Kind.REQUEST, self._calls, shown, raw, keep=keep)
        self._transcript.add(Kind.ADMIT, self._calls, {"model": MODEL, "purpose": purpose, "holdNusd": 9})
        return self._calls

    def head(self, call: int, status: int = 200) -> None:
        """The provider began to answer."""
        self._transcript.add(Kind.HEAD, call, {"status": status, "headers": {}})

    def body(self, call: int, *pieces: bytes, keep: bool = True) -> None:
        """Bytes of the answer, a record for each piece."""
        for piece in pieces:
            self._transcript.add(Kind.BODY, call, {}, piece, keep=keep)

    def settle(self, call: int, **changes: Any) -> None:
        """The end of a call that was served."""
        data = {
            "completeness": "exact",
            "usage": USAGE,
            "listNusd": 1_234_567,
            "standardNusd": 1_000_000,
            "bookedNusd": 1_234_567,
            "finish": None,
            "servedModel": None,
            "fault": None,
            "flags": [],
            "problem": "",
        }
        self._transcript.add(Kind.SETTLE, call, {**data, **changes})

    def release(self, call: int, status: int, fault: str | None = "provider") -> None:
        """The end of a call that was not served."""
        self._transcript.add(Kind.RELEASE, call, {"status": status, "fault": fault, "problem": ""})

    def turn(self, body: Mapping[str, Any] | bytes, *pieces: bytes, **changes: Any) -> int:
        """A whole call."""
        call = self.ask(body)
        self.head(call)
        self.body(call, *pieces)
        self.settle(call, **changes)
        return call

    def fail(self, body: Mapping[str, Any] | bytes, status: int, answer: bytes = b'{"error":{}}') -> int:
        """A call that the provider refuses."""
        call = self.ask(body)
        self.head(call, status)
        self.body(call, answer)
        self.release(call, status)
        return call

    def deny(self, body: bytes, code: str) -> int:
        """A call that the relay refuses."""
        self._calls += 1
        data = {"code": code, "message": "no", "request": {"family": self.family.value}}
        self._transcript.add(Kind.DENY, self._calls, data, body, keep=False)
        return self._calls

    @property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """What a reader of the file gets."""
        return read(self._transcript.path.read_bytes()).records

    def trajectory(self) -> dict[str, Any]:
        """The document, checked against the rules of its format."""
        found = trajectory(self.records, session_id="try-1", agent_name="agent", agent_version="1")
        check_document(found)
        assert json.loads(encode(found)) == found
        return found


def check_document(document: Mapping[str, Any]) -> None:
    """The rules of ATIF-v1.8: no unknown keys, steps from 1, agent-only fields, results of own calls."""
    assert document["schema_version"] == "ATIF-v1.8"
    assert set(document) <= _ROOT and set(document["agent"]) <= _AGENT
    assert document["steps"] and set(document["final_metrics"]) <= _FINAL
    for number, step in enumerate(document["steps"], 1):
        assert step["step_id"] == number
        check_step(step)
    embedded = document.get("subagent_trajectories", [])
    idents = [one["trajectory_id"] for one in embedded]
    assert len(set(idents)) == len(idents)
    for one in embedded:
        check_document(one)


def check_step(step: Mapping[str, Any]) -> None:
    """The rules of one step."""
    assert set(step) <= _STEP
    assert step["source"] in ("system", "user", "agent") and isinstance(step["message"], str)
    assert step["source"] == "agent" or not _AGENT_ONLY & set(step)
    if step.get("llm_call_count") == 0:
        assert not {"metrics", "reasoning_content"} & set(step)
    assert set(step.get("metrics", {})) <= _METRICS
    calls = step.get("tool_calls", [])
    assert all(set(call) <= _CALL and isinstance(call["arguments"], dict) for call in calls)
    for result in step.get("observation", {"results": []})["results"]:
        assert set(result) <= _RESULT
        assert result.get("source_call_id") in (None, *(call["tool_call_id"] for call in calls))


@pytest.fixture
def make_lane(tmp_path: Path) -> Callable[[Family], Lane]:
    """A new, empty lane of one family."""
    return lambda family: Lane(tmp_path / family.value, family)
