"""MCP servers in agents' own words: each form is read back by its own grammar, whatever the task wrote."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.launching import McpForm, McpTerms
from orchestrator.agents.profile import find_profile, load_profile
from workers.adapters import mcp

HTTP = {"name": "a", "transport": "streamable-http", "url": "http://a:1/mcp", "headers": {"X": "1"}}
SSE = {"name": "b", "transport": "sse", "url": "http://b/sse", "headers": {}}
STDIO = {"name": "c", "transport": "stdio", "command": "serve", "args": ["--x", "y z"]}
ALL = (HTTP, SSE, STDIO)


def toml_of(form: McpForm, servers: mcp.Servers) -> Any:
    return tomllib.loads(f'model = "m"\n\n{mcp.written(form, servers)}')


def test_plain_json() -> None:
    """The usual form, with every tool allowed."""
    found = json.loads(mcp.written("servers-json", ALL))
    assert found["a"] == {"type": "http", "url": "http://a:1/mcp", "headers": {"X": "1"}, "tools": ["*"]}
    assert found["c"] == {"type": "stdio", "command": "serve", "args": ["--x", "y z"], "tools": ["*"]}


def test_gemini_json() -> None:
    """Its key for the address says the transport; no tool is asked about."""
    assert json.loads(mcp.written("gemini-json", ALL)) == {
        "a": {"httpUrl": "http://a:1/mcp", "headers": {"X": "1"}, "trust": True},
        "b": {"url": "http://b/sse", "headers": {}, "trust": True},
        "c": {"command": "serve", "args": ["--x", "y z"], "trust": True},
    }


def test_opencode_json() -> None:
    """Local or remote; it must not look for a login."""
    found = json.loads(mcp.written("opencode-json", ALL))
    assert found["c"] == {"type": "local", "command": ["serve", "--x", "y z"], "enabled": True}
    assert (found["a"]["type"], found["a"]["oauth"]) == ("remote", False)


def test_codex_toml() -> None:
    """Tables at the end of its file; a server that is not there is an error, and one that is slow is not."""
    found = toml_of("codex-toml", (HTTP, STDIO))["mcp_servers"]
    assert found["a"]["url"] == HTTP["url"] and found["a"]["http_headers"] == {"X": "1"}
    assert found["c"]["command"] == "serve" and found["c"]["args"] == ["--x", "y z"]
    assert found["a"]["required"] and found["a"]["startup_timeout_sec"] >= 60
    assert toml_of("codex-toml", ()) == {"model": "m"}


def test_vibe_toml() -> None:
    """A list of tables."""
    first, second = toml_of("vibe-toml", (HTTP, STDIO))["mcp_servers"]
    assert (first["transport"], first["headers"], second["transport"]) == ("http", {"X": "1"}, "stdio")


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("servers-json", lambda text: json.loads(text)[NAME]["headers"]),
        ("gemini-json", lambda text: json.loads(text)[NAME]["headers"]),
        ("opencode-json", lambda text: json.loads(text)[NAME]["headers"]),
        ("codex-toml", lambda text: tomllib.loads(text)["mcp_servers"][NAME]["http_headers"]),
        ("vibe-toml", lambda text: tomllib.loads(text)["mcp_servers"][0]["headers"]),
    ],
)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_value_can_add_to_the_file(form: McpForm, read: Callable[[str], Any], value: str) -> None:
    """Quotes, line breaks and brackets of a task stay inside of its own words."""
    server = {"name": NAME, "transport": "sse", "url": value, "headers": {"X": value}}
    assert read(mcp.written(form, (server,))) == {"X": value}


NAME = 'a]"\n[b'


def test_what_an_agent_cannot_use_is_said() -> None:
    """By its profile: a transport, or servers at all."""
    codex = load_profile(find_profile("codex")).launch
    assert mcp.lacking(codex, (HTTP, STDIO)) is None and mcp.lacking(codex, ()) is None
    assert mcp.lacking(codex, (HTTP, SSE)) == (
        "the task has the sse MCP server b, which this agent cannot use: it can use stdio and http ones"
    )
    aider = load_profile(find_profile("aider")).launch
    assert (mcp.lacking(aider, (STDIO,)) or "").endswith("which this agent cannot use: it can use none")
    assert mcp.lacking(aider, ()) is None


def test_terms_name_a_transport() -> None:
    """An agent that can use none has no such section."""
    with pytest.raises(ValueError):
        McpTerms(transports=())
