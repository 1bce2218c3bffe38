"""The talk with an agent, without I/O: order of messages, permission, prompts, servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.adapters.acp.ending import Why
from workers.adapters.acp.lines import LineBuffer, LineTooLongError
from workers.adapters.acp.session import Session, Talk

HTTP = {"name": "desk", "transport": "streamable-http", "url": "http://desk:8000/mcp", "headers": {"a": "b"}}
STDIO = {"name": "local", "transport": "stdio", "command": "serve", "args": ["-x"]}


class Partner:
    """The other side: takes what the session sends, and answers as it is told."""

    def __init__(self, **talk: Any) -> None:
        self.session = Session(Talk(**{"prompts": ("do it",), "workdir": "/work", **talk}))

    def sent(self) -> list[dict[str, Any]]:
        """Everything that waits, as messages."""
        raw = b""
        while piece := self.session.waiting():
            raw += piece
            self.session.sent(len(piece))
        assert raw == b"" or raw.endswith(b"\n")
        return [json.loads(line) for line in raw.splitlines()]

    def say(self, *messages: Any) -> list[dict[str, Any]]:
        """Write messages, and take what comes of it."""
        lines = [json.dumps({"jsonrpc": "2.0", **one}) for one in messages]
        self.session.heard("".join(f"{line}\n" for line in lines).encode())
        return self.sent()

    def begin(self, capabilities: Any = None) -> list[dict[str, Any]]:
        """Answer initialize."""
        (first,) = self.sent()
        assert (first["id"], first["method"]) == (1, "initialize")
        result = {"protocolVersion": 1, "agentCapabilities": capabilities or {}}
        return self.say({"id": 1, "result": result})

    def prompted(self) -> dict[str, Any]:
        """Up to the first prompt."""
        self.begin()
        (prompt,) = self.say({"id": 2, "result": {"sessionId": "s"}})
        return prompt

    def permission(self, options: Any, session: str = "s") -> dict[str, Any]:
        """Ask for permission; the answer."""
        params = {"sessionId": session, "options": options, "toolCall": {"title": "rm"}}
        (answer,) = self.say({"id": "p", "method": "session/request_permission", "params": params})
        assert answer["id"] == "p"
        return answer


def option(name: str, kind: str) -> dict[str, str]:
    return {"optionId": name, "name": name, "kind": kind}


def test_the_order_of_a_talk() -> None:
    """initialize, session/new in the task's folder, the prompt as it is, and then nothing more."""
    partner = Partner()
    (opened,) = partner.begin()
    assert opened["method"] == "session/new" and opened["params"] == {"cwd": "/work", "mcpServers": []}
    (prompt,) = partner.say({"id": 2, "result": {"sessionId": "s"}})
    assert prompt["params"] == {"sessionId": "s", "prompt": [{"type": "text", "text": "do it"}]}
    assert not partner.session.over()
    assert partner.say({"id": 3, "result": {"stopReason": "end_turn"}}) == []
    assert partner.session.over() and partner.session.end().why is Why.FINISHED


def test_prompts_follow_each_other_in_one_session() -> None:
    """Multi-turn: the next prompt once the last was answered."""
    partner = Partner(prompts=("one", "two"))
    assert partner.prompted()["params"]["prompt"][0]["text"] == "one"
    (second,) = partner.say({"id": 3, "result": {"stopReason": "end_turn"}})
    assert second["id"] == 4 and second["params"]["prompt"][0]["text"] == "two"
    partner.say({"id": 4, "result": {"stopReason": "end_turn"}})
    assert (partner.session.end().why, partner.session.end().turns) == (Why.FINISHED, 2)


def test_an_agent_that_stops_for_another_reason_is_asked_no_more() -> None:
    """Its own reason is a claim and is written down; how many prompts were left is said."""
    partner = Partner(prompts=("one", "two"))
    partner.prompted()
    assert partner.say({"id": 3, "result": {"stopReason": "refusal"}}) == []
    end = partner.session.end()
    assert (end.why, end.turns, end.detail) == (Why.FINISHED, 1, "1 prompts were left when the agent stopped")
    assert end.claims["turns"] == [{"stopReason": "refusal", "usage": {}}]


@pytest.mark.parametrize(
    ("policy", "options", "chosen"),
    [
        ("allow", [option("n", "reject_once"), option("a", "allow_always"), option("o", "allow_once")], "a"),
        ("allow", [option("o", "allow_once"), option("a", "allow_always")], "o"),
        ("allow", [option("n", "reject_once")], None),
        ("reject", [option("o", "allow_once"), option("n", "reject_always")], "n"),
        ("reject", [option("o", "allow_once")], None),
        ("allow", [], None),
        ("allow", [{"kind": "allow_once"}, {"kind": ["allow_once"], "optionId": "x"}, "x"], None),
        ("allow", [option("x" * 300, "allow_once")], None),
        ("allow", "allow_once", None),
    ],
)
def test_permission_follows_the_policy(policy: str, options: Any, chosen: str | None) -> None:
    """agents.md section 6: the first option that allows; without a fitting one it counts as cancelled."""
    partner = Partner(permission=policy)
    partner.prompted()
    outcome = partner.permission(options)["result"]["outcome"]
    expected = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert outcome == expected
    (noted,) = partner.session.end().log["permissions"]
    assert noted["tool"] == "rm" and (noted["chosen"] == "cancelled") == (chosen is None)


def test_permission_for_another_session_is_refused() -> None:
    """And before there is one."""
    partner = Partner()
    partner.begin()
    assert partner.permission([option("a", "allow_once")], session="")["error"]["code"] == -32602
    partner.say({"id": 2, "result": {"sessionId": "s"}})
    assert partner.permission([option("a", "allow_once")], session="t")["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "_qwen/ask", "initialize"])
def test_what_is_not_offered_is_refused(method: str) -> None:
    """-32601, counted by name: files and terminals are the sandbox's own."""
    partner = Partner()
    partner.prompted()
    (answer,) = partner.say({"id": 9, "method": method, "params": {"sessionId": "s"}})
    assert answer["id"] == 9 and answer["error"]["code"] == -32601
    assert partner.session.end().log["refused"] == {method: 1}


def test_servers_are_offered_to_an_agent_that_can_use_them() -> None:
    """In the protocol's own words, headers as a list."""
    partner = Partner(mcp_servers=(HTTP, STDIO))
    (opened,) = partner.begin({"mcpCapabilities": {"http": True}})
    assert opened["params"]["mcpServers"] == [
        {"type": "http", "name": "desk", "url": HTTP["url"], "headers": [{"name": "a", "value": "b"}]},
        {"name": "local", "command": "serve", "args": ["-x"], "env": []},
    ]


@pytest.mark.parametrize("capabilities", [{}, {"mcpCapabilities": {"http": "yes"}}, {"mcpCapabilities": 1}])
def test_servers_that_an_agent_cannot_use_end_the_talk(capabilities: Any) -> None:
    """Every agent takes servers that it starts itself; others only who says so."""
    assert Partner(mcp_servers=(STDIO,)).begin(capabilities)
    partner = Partner(mcp_servers=(HTTP,))
    assert partner.begin(capabilities) == []
    assert partner.session.end().why is Why.LACKING


@pytest.mark.parametrize("version", [0, 2, "1", 1.0, True, None, [1]])
def test_another_version_ends_the_talk(version: Any) -> None:
    """Nothing is sent to an agent that speaks something else."""
    partner = Partner()
    partner.sent()
    assert partner.say({"id": 1, "result": {"protocolVersion": version}}) == []
    assert partner.session.end().why is Why.VERSION


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_error_of_the_agent_ends_the_talk(step: int) -> None:
    """As of an agent that wants a login; its words are shortened, and only words."""
    partner = Partner()
    partner.sent() if step == 1 else partner.begin() if step == 2 else partner.prompted()
    partner.say({"id": step, "error": {"code": -32000, "message": "log in " * 1000}})
    end = partner.session.end()
    assert end.why is Why.REFUSED and "log in" in end.detail and len(end.detail) < 1_200


@pytest.mark.parametrize("session", [None, "", 1, "x" * 2_000])
def test_a_session_without_a_usable_id(session: Any) -> None:
    """Nothing could be said in it."""
    partner = Partner()
    partner.begin()
    partner.say({"id": 2, "result": {"sessionId": session}})
    assert partner.session.end().why is Why.BROKEN


def test_updates_are_counted_and_the_answer_is_kept() -> None:
    """Only those of the own session; usage is a claim, and numbers only."""
    partner = Partner()
    partner.prompted()
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hey"}}
    for session in ("s", "t"):
        partner.say({"method": "session/update", "params": {"sessionId": session, "update": chunk}})
    partner.say(
        {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "plan"}}}
    )
    partner.say({"method": "something/else", "params": {}})
    usage = {"inputTokens": 7, "cost": 0.5, "x": -1, "y": True, "z": "1"}
    partner.say({"id": 3, "result": {"stopReason": "end_turn", "usage": usage}})
    end = partner.session.end()
    assert end.log["updates"] == {"agent_message_chunk": 1, "plan": 1}
    assert end.claims["answer"] == "hey" and end.claims["turns"][0]["usage"] == {"inputTokens": 7}


def test_lines_are_bounded_whether_they_end_or_not() -> None:
    """Pieces of any size; exactly the limit is allowed."""
    assert LineBuffer(5).feed(b"12345\n1\r\n\n") == [b"12345", b"1"]
    for data in (b"123456", b"123456\n"):
        with pytest.raises(LineTooLongError):
            LineBuffer(5).feed(data)
    buffer = LineBuffer(5)
    assert buffer.feed(b"123") == [] and buffer.feed(b"4\n5") == [b"1234"] and buffer.feed(b"\n") == [b"5"]
