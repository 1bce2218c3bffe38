"""An agent may write anything: the talk never raises, never grows without bound, and is always evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import canonical
from workers.adapters.acp.ending import Why
from workers.adapters.acp.journal import ANSWER_LIMIT_BYTES, MOST_ENTRIES
from workers.adapters.acp.lines import LINE_LIMIT_BYTES
from workers.adapters.acp.session import MOST_REQUESTS, MOST_STRANGE, MOST_UNREAD_BYTES, Session, Talk

EVIDENCE_BYTES = 512 << 10
METHODS = ("session/update", "session/request_permission", "fs/read_text_file", "initialize", "", "é\ud800")
WORDS = ("end_turn", "s", "allow_once", "agent_message_chunk", "text", "x" * 500, "\ud800", "")
KEYS = (
    *("sessionId", "update", "sessionUpdate", "content", "text", "options", "optionId", "kind", "toolCall"),
    *("title", "stopReason", "usage", "protocolVersion", "agentInfo", "name", "message", "agentCapabilities"),
)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
ids = st.one_of(st.integers(-1, 5), st.sampled_from(("1", "2", None, True, 1.0, 1 << 70, "y" * 300)))
messages = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "method": st.one_of(st.sampled_from(METHODS), values),
        "params": values,
        "result": values,
        "error": values,
    },
)
GOOD = [
    {"id": 1, "result": {"protocolVersion": 1}},
    {"id": 2, "result": {"sessionId": "s"}},
]


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def told(pieces: Iterable[bytes], *, reads: bool = True) -> Session:
    """A talk in which the agent wrote `pieces`, and read every answer or none."""
    session = Session(Talk(("do it",), "/work"))
    for piece in pieces:
        session.heard(piece)
        while reads and (waiting := session.waiting()):
            assert all(json.loads(one)["jsonrpc"] == "2.0" for one in waiting.splitlines())
            session.sent(len(waiting))
    return session


def is_evidence(session: Session) -> None:
    """Plain canonical data of a bounded size."""
    assert len(canonical.encode(session.end().as_data())) <= EVIDENCE_BYTES


@given(st.integers(0, 2), st.lists(messages, max_size=12))
def test_any_messages_at_any_moment(begun: int, found: list[dict[str, Any]]) -> None:
    """Well-formed lines with anything in them."""
    session = told([*map(line, GOOD[:begun]), *map(line, found)])
    is_evidence(session)
    if session.end().why is Why.FINISHED:
        assert any(one.get("id") == 3 and "result" in one for one in found)


@given(st.integers(0, 2), st.lists(st.binary(max_size=60), max_size=12))
def test_any_bytes_at_any_moment(begun: int, found: list[bytes]) -> None:
    """No message comes of noise: nobody is believed to have finished."""
    session = told([*map(line, GOOD[:begun]), *found])
    is_evidence(session)
    assert session.end().turns == 0


@given(st.data())
def test_pieces_of_any_size_come_to_the_same(data: st.DataObject) -> None:
    """Where the engine cuts the stream is nobody's doing."""
    found = data.draw(st.lists(messages, max_size=6))
    raw = b"".join(map(line, [*GOOD, *found]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert told(pieces).end() == told([raw]).end()


def test_an_endless_line_is_given_up() -> None:
    """With no more of it in memory than one line may have."""
    session = told(b"x" * 65_536 for _ in range(LINE_LIMIT_BYTES // 65_536 + 1))
    assert session.end().why is Why.BROKEN and session.over()


def test_noise_is_borne_for_a_while() -> None:
    """Warnings between messages are common."""
    assert told([b"warning\n" * MOST_STRANGE, *map(line, GOOD)]).end().why is Why.UNFINISHED
    assert told([b"warning\n" * (MOST_STRANGE + 1)]).end().why is Why.BROKEN


def test_a_deep_message_is_noise() -> None:
    """Neither the parser nor anything after it is brought to its knees."""
    deep = b'{"method":"session/update","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001 + b"\n"
    session = told([deep])
    assert session.end().log["strangeLines"] == 1 and not session.over()


def test_requests_without_end() -> None:
    """Permission asked for ever: answered up to a number, noted up to a smaller one."""
    asked = {"id": 7, "method": "session/request_permission", "params": {"sessionId": "s"}}
    session = told([*map(line, GOOD), *(line(asked) for _ in range(MOST_REQUESTS + 1))])
    assert session.end().why is Why.BROKEN and f"{MOST_REQUESTS} requests" in session.end().detail
    assert session.end().log["permissionsByChoice"] == {"cancelled": MOST_REQUESTS}
    assert len(session.end().log["permissions"]) == MOST_ENTRIES


def test_an_agent_that_never_reads() -> None:
    """Answers do not pile up; a long instruction of ours is not held against it."""
    asked = {"id": "y" * 250, "method": "m" * 1000}
    session = told((line(asked) for _ in range(MOST_REQUESTS)), reads=False)
    assert session.end().why is Why.BROKEN and "without reading" in session.end().detail
    long = Session(Talk(("x" * (2 * MOST_UNREAD_BYTES),), "/work"))
    for message in (*GOOD, {"id": 7, "method": "fs/read_text_file"}):
        long.heard(line(message))
    assert not long.over()


def test_names_and_answers_are_kept_up_to_a_bound() -> None:
    """Every method another one, every update a new kind, an answer without end."""
    kinds = ({"sessionUpdate": f"{'k' * 90}{n}"} for n in range(2_000))
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"text": "y" * 1000}}
    updates = [*kinds, *(chunk for _ in range(1_000))]
    session = told(
        [
            *map(line, GOOD),
            *(line({"method": "session/update", "params": {"sessionId": "s", "update": u}}) for u in updates),
            *(line({"id": n, "method": f"{'m' * 500}{n}"}) for n in range(2_000)),
        ]
    )
    end = session.end()
    assert len(end.claims["answer"]) == ANSWER_LIMIT_BYTES
    assert sum(end.log["updates"].values()) == 3_000 and sum(end.log["refused"].values()) == 2_000
    is_evidence(session)


@pytest.mark.parametrize(
    "late", [b'{"id":3,"result":{"stopReason":"end_turn"}}\n', b"x" * (LINE_LIMIT_BYTES + 1)]
)
def test_nothing_counts_after_the_end(late: bytes) -> None:
    """The end stands as it is."""
    session = told([line({"id": 1, "error": {"message": "no"}})])
    before = session.end()
    session.heard(late)
    assert session.end() == before and session.waiting() == b""
