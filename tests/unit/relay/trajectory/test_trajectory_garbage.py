"""Neither side of a call is trusted: whatever its bodies hold, there is a document that can be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from workers.relay.trajectory.atif import encode, trajectory
from workers.relay.trajectory.tool_calls import tool_calls
from workers.relay.wire.family import Family

if TYPE_CHECKING:
    from tests.unit.relay.trajectory.conftest import Lane


def test_a_record_that_ends_inside_a_character_is_read_like_any_other(
    make_lane: Callable[[Family], Lane],
) -> None:
    """The transcript keeps such pieces in base64; together they are the answer."""
    lane = make_lane(Family.GOOGLE)
    raw = '{"candidates":[{"content":{"parts":[{"text":"漢字"}]}}]}'.encode()
    middle = raw.index("字".encode()) + 1
    lane.turn({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}, raw[:middle], raw[middle:])
    assert any("base64" in record.get("payload", {}) for record in lane.records)
    assert lane.trajectory()["steps"][-1]["message"] == "漢字"


@given(
    st.sampled_from(list(Family)),
    st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=60)), max_size=4),
)
def test_bodies_of_any_content_never_raise(family: Family, turns: list[tuple[bytes, bytes]]) -> None:
    """Neither side of a call is trusted to be what it says."""
    records = [record for number, turn in enumerate(turns, 1) for record in raw_turn(family, number, *turn)]
    found = trajectory(records, session_id="s", agent_name="a", agent_version="1")
    assert json.loads(encode(found)) == found
    assert tool_calls(records) == []


NAMES = [
    *("role", "content", "tool_calls", "function", "tool_call_id", "name", "type", "text", "id", "call_id"),
    *("parts", "functionCall", "functionResponse", "response", "output", "tool_use_id", "arguments"),
]
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


@given(
    st.sampled_from(list(Family)),
    st.lists(st.tuples(st.lists(ODD, max_size=4), ODD), min_size=1, max_size=3),
)
def test_json_of_any_shape_never_raises(family: Family, turns: list[tuple[list[Any], Any]]) -> None:
    """The right names in the wrong places: still a document that can be written."""
    records = []
    for number, (history, answer) in enumerate(turns, 1):
        asked = json.dumps(dict.fromkeys(("messages", "input", "contents", "tools", "system"), history))
        said = json.dumps({"choices": [{"message": answer}], "output": answer, "content": answer})
        records += raw_turn(family, number, asked.encode(), said.encode())
    found = trajectory(records, session_id="s", agent_name="a", agent_version="1")
    assert json.loads(encode(found)) == found
    tool_calls(records)


def raw_turn(family: Family, number: int, asked: bytes, said: bytes) -> list[dict[str, Any]]:
    """The records of a call whose bodies are just bytes."""

    def record(kind: str, data: dict[str, Any], payload: bytes | None = None) -> dict[str, Any]:
        held = {} if payload is None else {"payload": {"text": payload.decode("utf-8", "replace")}}
        return {"call": number, "kind": kind, "atUs": number, "data": data, **held}

    return [
        record("request", {"family": family.value}, asked),
        record("admit", {"model": "m", "purpose": "generate"}),
        record("head", {"status": 200}),
        record("body", {}, said),
        record("settle", {"completeness": "unknown", "fault": None}),
    ]
