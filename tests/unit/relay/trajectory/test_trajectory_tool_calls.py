"""The list of tool calls for the evidence: canonical, bounded, in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrator import canonical
from workers.relay.trajectory.tool_calls import RESULT_HEAD_BYTES, tool_calls
from workers.relay.wire.family import Family

if TYPE_CHECKING:
    from tests.unit.relay.trajectory.conftest import Lane

OUTPUT = "é" * RESULT_HEAD_BYTES


def answer(text: str, *calls: dict[str, Any]) -> bytes:
    blocks = [{"type": "text", "text": text}, *calls]
    return json.dumps({"type": "message", "content": blocks}).encode()


def use(ident: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def talk(lane: Lane) -> None:
    """Two calls in one answer, of which one gets its result, and a call in another conversation between."""
    task = {"role": "user", "content": "Do it."}
    used = [use("t1", "bash", command="ls", seconds=0.5), use("t2", "read", path="a")]
    lane.turn({"messages": [task]}, answer("x", *used))
    lane.turn({"messages": [{"role": "user", "content": "Look."}]}, answer("y", use("t9", "bash")))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": OUTPUT}
    history = [task, {"role": "assistant", "content": used}, {"role": "user", "content": [result]}]
    lane.turn({"messages": history}, answer("done", use("t3", "bash", command="pwd")))


def test_every_call_is_listed_in_order_with_what_is_known(make_lane: Callable[[Family], Lane]) -> None:
    """In the order of the model calls, whatever conversation they are of; no result is null."""
    lane = make_lane(Family.ANTHROPIC)
    talk(lane)
    found = tool_calls(lane.records)
    assert [(one["call"], one["thread"], one["id"], one["name"]) for one in found] == [
        (1, 1, "t1", "bash"),
        (1, 1, "t2", "read"),
        (2, 2, "t9", "bash"),
        (3, 1, "t3", "bash"),
    ]
    assert [one["result"] is None for one in found] == [False, True, True, True]
    assert {one["model"] for one in found} == {"model-1"}


def test_a_result_is_its_size_digest_and_beginning(make_lane: Callable[[Family], Lane]) -> None:
    """2 KiB of whole characters; the digest is of the whole text."""
    lane = make_lane(Family.ANTHROPIC)
    talk(lane)
    shown = tool_calls(lane.records)[0]["result"]
    raw = OUTPUT.encode()
    assert shown == {
        "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "head": "é" * (RESULT_HEAD_BYTES // 2),
    }


def test_the_list_has_a_canonical_form(make_lane: Callable[[Family], Lane]) -> None:
    """Arguments stay text, so that a fraction in them does no harm; the same records give the same bytes."""
    lane = make_lane(Family.ANTHROPIC)
    talk(lane)
    raw = canonical.encode(tool_calls(lane.records))
    assert canonical.decode_strict(raw)[0]["arguments"] == '{"command":"ls","seconds":0.5}'
    assert canonical.encode(tool_calls(lane.records)) == raw
