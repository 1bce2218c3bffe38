"""Provider-run tools: everything that is not on the allow-list of client-run kinds."""

from __future__ import annotations

from typing import Any

import pytest

from workers.relay.wire.family import Family
from workers.relay.wire.request import ProviderTool, inspect

CHAT, RESPONSES = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
FAR = "https://attacker.example/mcp"

FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {}}}
GRAMMAR = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}


@pytest.mark.parametrize(
    ("family", "tools"),
    [
        (CHAT, [FUNCTION, GRAMMAR]),
        (CHAT, None),
        (RESPONSES, [FUNCTION, GRAMMAR, {"type": "local_shell"}]),
        (RESPONSES, [{"type": "tool_search", "execution": "client"}]),
        (RESPONSES, [{"type": "namespace", "tools": [FUNCTION, {"type": "namespace", "tools": [GRAMMAR]}]}]),
        (ANTHROPIC, [{"name": "Bash", "input_schema": {}}]),
        (ANTHROPIC, [{"name": "Later", "defer_loading": True, "input_schema": {}}]),
        (ANTHROPIC, [{"type": "custom", "name": "c", "input_schema": {}}]),
        (ANTHROPIC, [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728"}]),
        (ANTHROPIC, [{"type": "memory_20250818"}, {"type": "computer_20250124"}]),
        (GOOGLE, [{"functionDeclarations": []}, {"function_declarations": []}, {"googleSearch": None}, {}]),
    ],
)
def test_tools_that_the_client_runs_are_no_provider_tools(family: Family, tools: Any) -> None:
    """The allow-list, in full."""
    assert inspect(family, {"tools": tools}).provider_tools == ()


@pytest.mark.parametrize(
    ("family", "body", "kinds"),
    [
        (CHAT, {"web_search_options": {}}, ["web_search"]),
        (CHAT, {"search_parameters": {"mode": "auto"}}, ["web_search"]),
        (CHAT, {"search_parameters": {"mode": "off"}}, []),
        (CHAT, {"plugins": [{"id": "web"}]}, ["web"]),
        (CHAT, {"tools": [{"type": "web_search_preview"}, {}]}, ["web_search", "unnamed"]),
        (RESPONSES, {"tools": [{"type": "web_search", "external_web_access": True}]}, ["web_search"]),
        (RESPONSES, {"tools": [{"type": "web_search_preview_2025_03_11"}]}, ["web_search"]),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": FAR}]}, ["mcp"]),
        (RESPONSES, {"tools": [{"type": "code_interpreter"}, {"type": "file_search"}]}, None),
        (RESPONSES, {"tools": [{"type": "computer_use_preview"}]}, ["computer_use"]),
        (RESPONSES, {"tools": [{"type": "tool_search"}]}, ["tool_search"]),
        (RESPONSES, {"tools": [{"type": "tool_search", "execution": "server"}]}, ["tool_search"]),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, ["mcp"]),
        (RESPONSES, {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, ["mcp"]),
        (
            RESPONSES,
            {
                "input": [
                    {
                        "type": "additional_tools",
                        "tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}],
                    }
                ]
            },
            ["web_search"],
        ),
        (ANTHROPIC, {"tools": [{"type": "web_search_20250305", "name": "s"}]}, ["web_search"]),
        (ANTHROPIC, {"tools": [{"type": "web_fetch_20250910", "input_schema": {}}]}, ["web_fetch"]),
        (ANTHROPIC, {"tools": [{"type": "code_execution_20250825"}]}, ["code_execution"]),
        (ANTHROPIC, {"tools": [{"type": "bash_code_execution_20250825"}]}, ["bash_code_execution"]),
        (ANTHROPIC, {"tools": [{"name": "no schema"}, {"type": "custom"}]}, ["unnamed", "custom"]),
        (ANTHROPIC, {"mcp_servers": [{"url": FAR}, {"url": FAR}]}, ["mcp", "mcp"]),
        (ANTHROPIC, {"container": {"skills": []}}, ["container"]),
        (GOOGLE, {"tools": [{"googleSearch": {}}, {"urlContext": {}}]}, ["google_search", "url_context"]),
        (GOOGLE, {"tools": [{"functionDeclarations": [], "code_execution": {}}]}, ["code_execution"]),
        (GOOGLE, {"tools": [{"googleSearchRetrieval": {}}]}, ["google_search_retrieval"]),
    ],
)
def test_every_other_tool_is_the_provider_s(
    family: Family, body: dict[str, Any], kinds: list[str] | None
) -> None:
    """Named in lower snake case, without dates; the type decides even beside a schema."""
    found = [tool.kind for tool in inspect(family, body).provider_tools]
    assert found == (["code_interpreter", "file_search"] if kinds is None else kinds)


def test_a_tool_s_own_use_limit_is_read() -> None:
    """It bounds the fees of the call."""
    tools = [{"type": "web_search_20250305", "max_uses": 3}, {"type": "web_fetch_20250910", "max_uses": None}]
    found = inspect(ANTHROPIC, {"tools": tools}).provider_tools
    assert found == (ProviderTool("web_search", 3), ProviderTool("web_fetch", None))
