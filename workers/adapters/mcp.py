"""A task's MCP servers in the words of an agent's own configuration: pure.

The values are the task's; they arrive quoted by the rules of the format, so that none of them can add
anything to the file that they stand in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from orchestrator.agents.launching import LaunchTemplate, McpForm, Transport

_CODEX_STARTUP: Final = "startup_timeout_sec = 60"
"""It gives up after 10 s by itself, and a host that runs many tries is slower than a laptop."""

Servers = Sequence[Mapping[str, Any]]
"""As of `AttemptOrder`: name, transport, and url with headers, or command with args."""


def transport_of(server: Mapping[str, Any]) -> Transport:
    """The transport under the name that agents use."""
    found: Transport = {"stdio": "stdio", "sse": "sse"}.get(str(server["transport"]), "http")  # type: ignore[assignment]
    return found


def lacking(template: LaunchTemplate, servers: Servers) -> str | None:
    """Why the agent cannot use these servers, as a sentence; None if it can, or there are none."""
    known = () if template.mcp is None else template.mcp.transports
    for server in servers:
        kind = transport_of(server)
        if kind not in known:
            can = f"it can use {' and '.join(known)} ones" if known else "it can use none"
            return f"the task has the {kind} MCP server {server['name']}, which this agent cannot use: {can}"
    return None


def written(form: McpForm | None, servers: Servers) -> str:
    """The servers in this form; empty for none."""
    return "" if form is None else _FORMS[form](servers)


def plain(server: Mapping[str, Any]) -> dict[str, Any]:
    """One server in the form that most agents read: type, and url with headers, or command with args."""
    rest = {key: value for key, value in server.items() if key not in ("name", "transport")}
    return {"type": transport_of(server), **rest}


def _servers(servers: Servers) -> str:
    """`{name: {type, ...}}`; every tool of a server is allowed where an agent asks which."""
    return _json({str(one["name"]): {**plain(one), "tools": ["*"]} for one in servers})


def _gemini(servers: Servers) -> str:
    found: dict[str, Any] = {}
    for one in servers:
        rest = {key: value for key, value in plain(one).items() if key not in ("type", "url")}
        url = {"sse": "url", "http": "httpUrl"}.get(transport_of(one))
        found[str(one["name"])] = {**({url: one["url"]} if url else {}), **rest, "trust": True}
    return _json(found)


def _opencode(servers: Servers) -> str:
    found: dict[str, Any] = {}
    for one in servers:
        if transport_of(one) == "stdio":
            how: dict[str, Any] = {"type": "local", "command": [one["command"], *one.get("args", ())]}
        else:
            how = {"type": "remote", "url": one["url"], "headers": one.get("headers") or {}, "oauth": False}
        found[str(one["name"])] = {**how, "enabled": True}
    return _json(found)


def _codex(servers: Servers) -> str:
    lines: list[str] = []
    for one in servers:
        lines.append(f"[mcp_servers.{_text(one['name'])}]")
        if transport_of(one) == "stdio":
            lines += [f"command = {_text(one['command'])}", f"args = {_list(one.get('args', ()))}"]
        else:
            lines.append(f"url = {_text(one['url'])}")
            lines.append(f"http_headers = {_table(one.get('headers') or {})}")
        lines += ['default_tools_approval_mode = "approve"', "required = true", _CODEX_STARTUP, ""]
    return "\n".join(lines)


def _vibe(servers: Servers) -> str:
    lines: list[str] = []
    for one in servers:
        kind = transport_of(one)
        lines += ["[[mcp_servers]]", f"name = {_text(one['name'])}", f"transport = {_text(kind)}"]
        if kind == "stdio":
            lines += [f"command = {_text(one['command'])}", f"args = {_list(one.get('args', ()))}", ""]
        else:
            lines += [f"url = {_text(one['url'])}", f"headers = {_table(one.get('headers') or {})}", ""]
    return "\n".join(lines)


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


def _text(value: object) -> str:
    """A TOML string: JSON's, with characters outside of ASCII as they are, and DEL escaped."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Sequence[object]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _table(values: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{_text(name)} = {_text(text)}" for name, text in values.items()) + " }"


_FORMS: Final[Mapping[McpForm, Callable[[Servers], str]]] = {
    "servers-json": _servers,
    "gemini-json": _gemini,
    "opencode-json": _opencode,
    "codex-toml": _codex,
    "vibe-toml": _vibe,
}
