"""What is said on the wire: JSON-RPC 2.0, one message a line, protocol version 1. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from workers.adapters.shell.conversation import mapped

PROTOCOL_VERSION: Final = 1
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

_MAX_ID_CHARS: Final = 256
_MAX_ID: Final = 1 << 63

Id = int | str


@dataclass(frozen=True)
class Request:
    """The agent asks for something and waits for the answer."""

    id: Id
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Notification:
    """The agent tells something."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Response:
    """The agent answers one of our requests; exactly one of `result` and `error` counts."""

    id: Id
    result: Mapping[str, Any]
    error: Mapping[str, Any] | None


def read(document: Mapping[str, Any] | None) -> Request | Notification | Response | None:
    """The message in a JSON object; None for what is no message that could be answered or understood."""
    if document is None:
        return None
    method, given = document.get("method"), document.get("id")
    if isinstance(method, str):
        params = mapped(document.get("params"))
        if "id" not in document:
            return Notification(method, params)
        return Request(given, method, params) if _is_id(given) else None
    if _is_id(given) and ("result" in document or "error" in document):
        error = mapped(document.get("error")) if document.get("error") is not None else None
        return Response(given, mapped(document.get("result")), error)
    return None


def _is_id(value: Any) -> TypeGuard[Id]:
    if isinstance(value, str):
        return len(value) <= _MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_ID


def request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of ours."""
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def answer(asked: Request, result: Mapping[str, Any]) -> bytes:
    """A good answer to the agent."""
    return _line({"jsonrpc": "2.0", "id": asked.id, "result": result})


def refusal(asked: Request, code: int, message: str) -> bytes:
    """An error as the answer to the agent."""
    return _line({"jsonrpc": "2.0", "id": asked.id, "error": {"code": code, "message": message}})


def initialize() -> Mapping[str, Any]:
    """Neither files nor terminals of ours are offered: the agent has its sandbox's own."""
    files = {"readTextFile": False, "writeTextFile": False}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {"fs": files, "terminal": False},
        "clientInfo": {"name": "assize", "version": "1"},
    }


def servers(offered: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A task's MCP servers (name, transport, url or command) as the protocol writes them."""
    found: list[dict[str, Any]] = []
    for one in offered:
        if one.get("transport") == "stdio":
            known = {"name": one["name"], "command": one["command"], "args": list(one.get("args", ()))}
            found.append({**known, "env": []})
        else:
            headers = [{"name": name, "value": text} for name, text in one.get("headers", {}).items()]
            found.append({"type": _kind(one), "name": one["name"], "url": one["url"], "headers": headers})
    return found


def lacking(offered: Sequence[Mapping[str, Any]], capabilities: Mapping[str, Any]) -> str | None:
    """A kind of MCP server that is offered and the agent does not say it can use; None if there is none."""
    known = mapped(capabilities.get("mcpCapabilities"))
    for one in offered:
        if one.get("transport") != "stdio" and known.get(_kind(one)) is not True:
            return _kind(one)
    return None


def _kind(server: Mapping[str, Any]) -> str:
    return "sse" if server.get("transport") == "sse" else "http"


def _line(message: Mapping[str, Any]) -> bytes:
    # Half of a surrogate pair, which an agent may send as an id, goes back as an escape.
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
