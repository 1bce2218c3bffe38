"""From an agent revision to a command and its environment (reference/agents.md section 4)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder, Caps
from orchestrator.ids import new_id
from workers.adapters.launch import (
    HOME,
    INSTRUCTION,
    MCP_CONFIG,
    OUT,
    QUIET,
    RELAY_URL,
    contract_environment,
    mcp_config,
    plan_launch,
)
from workers.sandbox.tars import Owner


def order(agent: dict[str, Any], **changes: Any) -> AttemptOrder:
    values: dict[str, Any] = dict.fromkeys(AttemptOrder.__dataclass_fields__)
    values |= {
        "attempt_id": new_id(),
        "slot_id": new_id(),
        "agent": agent,
        "caps": Caps(90_500, 1, 1, 1, 1, 1, 1),
        "environment": {},
        "solution_environment": {},
        "task_dir": Path("/nowhere"),
    }
    return AttemptOrder(**{**values, **changes})


def test_the_reference_solution_runs_its_script() -> None:
    """The oracle alone gets `/solution`, with its own variables."""
    launch = plan_launch(order({"kind": "oracle"}, solution_environment={"A": "1"}))
    assert launch.argv == ("bash", "/solution/solve.sh") and launch.solution
    assert launch.environment == {"A": "1"}


def test_the_idle_agent_runs_nothing() -> None:
    """It goes through the same path without a command."""
    launch = plan_launch(order({"kind": "nop"}))
    assert launch.argv is None and not launch.solution


@pytest.mark.parametrize("run_environment", [None, {}, {"KEY": "v"}])
def test_a_bundled_agent_gets_its_command_word_by_word(run_environment: dict[str, str] | None) -> None:
    """Words reach the agent unquoted and unexpanded; the instruction is on standard input."""
    words = ["/opt/agent/run", "a b", "$(id)", "'", '--flag="x"', ""]
    launch = plan_launch(order({"kind": "exec", "run": {"command": words, "env": run_environment}}))
    assert launch.argv is not None and launch.argv[-len(words) :] == tuple(words)
    assert launch.argv[:2] == ("sh", "-c") and INSTRUCTION in launch.argv[2]
    assert not any(word in launch.argv[2] for word in words[1:4])
    assert launch.environment == (run_environment or {}) and not launch.solution


def test_an_unknown_kind_is_a_bug() -> None:
    """Registration refuses it, so that it never gets here."""
    with pytest.raises(KeyError):
        plan_launch(order({"kind": "chat"}))


def test_the_contract() -> None:
    """Every variable of the run contract, with the limits as information."""
    found = contract_environment(order({"kind": "nop"}), Owner(1000, 1000), "/w", 90)
    assert found["HOME"] == HOME and found["ASSIZE_INSTRUCTION"] == INSTRUCTION
    assert (found["ASSIZE_WORKSPACE"], found["ASSIZE_OUT"], found["ASSIZE_DEADLINE_S"]) == ("/w", OUT, "90")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "ASSIZE_RELAY_URL"):
        assert found[name].startswith(RELAY_URL)
    assert QUIET.items() <= found.items() and "IS_SANDBOX" not in found
    assert all(type(value) is str for value in found.values())


def test_mcp_servers_are_told_in_the_form_that_agents_read() -> None:
    """One file for every task; `http` is the usual word for the streamable transport."""
    servers = (
        {"name": "a", "transport": "streamable-http", "url": "http://a:1/mcp", "headers": {}},
        {"name": "b", "transport": "sse", "url": "http://b/sse", "headers": {"X": "1"}},
        {"name": "c", "transport": "stdio", "command": "serve", "args": ["--x"]},
    )
    assert json.loads(mcp_config(order({"kind": "nop"}, mcp_servers=servers))) == {
        "mcpServers": {
            "a": {"type": "http", "url": "http://a:1/mcp", "headers": {}},
            "b": {"type": "sse", "url": "http://b/sse", "headers": {"X": "1"}},
            "c": {"type": "stdio", "command": "serve", "args": ["--x"]},
        }
    }
    assert json.loads(mcp_config(order({"kind": "nop"}, mcp_servers=()))) == {"mcpServers": {}}
    contract = contract_environment(order({"kind": "nop"}), Owner(1, 1), "/w", 1)
    assert contract["ASSIZE_MCP_CONFIG"] == MCP_CONFIG


def test_root_is_told_that_it_is_in_a_sandbox() -> None:
    """Some agents refuse to run as root otherwise."""
    assert contract_environment(order({"kind": "nop"}), Owner(0, 0), "/w", 90)["IS_SANDBOX"] == "1"


def test_a_task_cannot_take_the_contract_away() -> None:
    """A task's own variables come first, ours last."""
    task = order({"kind": "nop"}, environment={"HOME": "/evil", "OPENAI_BASE_URL": "http://x", "MINE": "1"})
    found = contract_environment(task, Owner(1, 1), "/w", 1)
    assert (found["HOME"], found["MINE"]) == (HOME, "1")
    assert found["OPENAI_BASE_URL"].startswith(RELAY_URL)


def test_no_secret_of_the_order_is_in_the_environment() -> None:
    """The fencing token, ids and grader settings are nothing to the agent (L6)."""
    task = replace(
        order({"kind": "nop"}), token=424242, grader_environment={"GRADER": "g-secret"}, reward_key="r-key"
    )
    text = repr(contract_environment(task, Owner(1, 1), "/w", 1))
    for secret in ("424242", "g-secret", "r-key", task.attempt_id, task.slot_id):
        assert secret not in text


def test_an_agent_that_is_talked_to_gets_its_command_as_it_is() -> None:
    """Its standard input is the talk; no shell stands between."""
    agent = {"kind": "acp", "run": {"command": ["/opt/agent/run", "a b"]}, "acp": {"permission": "reject"}}
    launch = plan_launch(order(agent))
    assert (launch.argv, launch.permission) == (("/opt/agent/run", "a b"), "reject")
    assert plan_launch(order({"kind": "nop"})).permission is None
