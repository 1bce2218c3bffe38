"""A scripted agent that speaks the agent client protocol, with the standard library alone.

`ACP_MODE` says how it behaves; the default works on its task. Every other mode is a hostile twin: it makes
`/tmp/reached.txt` where it comes further than it should.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

MODE = os.environ.get("ACP_MODE", "work")
READ = sys.stdin.buffer
WRITE = sys.stdout.buffer
SESSION = "one"


def send(message: dict[str, Any]) -> None:
    WRITE.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    WRITE.flush()


def take() -> Any:
    line = READ.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def answer(asked: Any, result: Any) -> None:
    send({"id": asked["id"], "result": result})


def ask(number: Any, method: str, params: Any) -> Any:
    """A request of the agent's own; the client's answer."""
    send({"id": number, "method": method, "params": params})
    return take()


def update(text: str) -> None:
    content = {"type": "text", "text": text}
    told = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {"sessionId": SESSION, "update": told}})


def permission(number: int) -> Any:
    options = [
        {"optionId": "no", "name": "No", "kind": "reject_once"},
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "once", "name": "Once", "kind": "allow_once"},
    ]
    asked = {
        "sessionId": SESSION,
        "toolCall": {"toolCallId": "1", "title": "write out.txt"},
        "options": options,
    }
    return ask(number, "session/request_permission", asked)["result"]["outcome"]


def reached() -> None:
    Path("/tmp/reached.txt").write_text(MODE)


def work(asked: Any) -> None:
    (part,) = asked["params"]["prompt"]
    assert part == {"type": "text", "text": Path(os.environ["ASSIZE_INSTRUCTION"]).read_text()}
    chosen = permission(1)
    refused = ask("two", "fs/write_text_file", {"sessionId": SESSION, "path": "/tmp/x", "content": ""})
    assert refused["error"]["code"] == -32601 and refused["id"] == "two"
    if chosen.get("optionId") == "always":
        Path("/tmp/out.txt").write_text("done")
    update("It is ")
    update("done.")
    usage = {"inputTokens": 10, "outputTokens": 5}
    answer(asked, {"stopReason": "end_turn", "usage": usage})


def hostile() -> None:
    if MODE == "floods":
        while True:
            update("x" * 1000)
    if MODE == "huge-line":
        WRITE.write(b'{"jsonrpc":"2.0","id":3,"result":{"stopReason":"' + b"x" * (5 << 20))
        WRITE.flush()
    if MODE == "wrong-ids":
        for wrong in (0, 2, 4, "3", None, True, 3.0, [3]):
            send({"id": wrong, "result": {"stopReason": "end_turn"}})
    if MODE == "not-json":
        while True:
            WRITE.write(b"Thinking...\n")
            WRITE.flush()
    if MODE == "exits":
        sys.exit(7)
    if MODE == "asks-for-ever":
        for number in range(1 << 30):
            send({"id": number, "method": "session/request_permission", "params": {"sessionId": SESSION}})
    if MODE == "deaf":
        for number in range(1 << 30):
            send(
                {
                    "id": "x" * 200 + str(number),
                    "method": "fs/read_text_file",
                    "params": {"path": "/etc/shadow"},
                }
            )
    take()
    reached()


initialize = take()
assert initialize["method"] == "initialize" and initialize["params"]["protocolVersion"] == 1
offered = initialize["params"]["clientCapabilities"]
assert offered == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
if MODE == "leaves":  # with most of what was said to it unread
    answer(initialize, {"protocolVersion": 1})
    take()
    answer({"id": 2}, {"sessionId": SESSION})
    sys.exit(7)
if MODE == "silent":
    take()
    reached()
sys.stderr.write("a warning on standard error\n")
WRITE.write(b"a warning on standard output\n")
info = {"name": "scripted", "version": "1"}
answer(initialize, {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info})
opened = take()
assert opened["method"] == "session/new" and opened["params"] == {"cwd": os.getcwd(), "mcpServers": []}
answer(opened, {"sessionId": SESSION})
prompt = take()
assert prompt["method"] == "session/prompt" and prompt["params"]["sessionId"] == SESSION
if MODE in ("work", "children"):
    if MODE == "children" and os.fork() == 0:
        os.setsid()
        while True:
            pass
    work(prompt)
    take()  # stays until it is killed
else:
    hostile()
