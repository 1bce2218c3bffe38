"""Known agents and the MCP servers of a task: handed over in their own words, or of no use to them."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from orchestrator.attempts import AttemptReport
from orchestrator.evidence.transcript import Kind
from orchestrator.ids import new_id
from orchestrator.ledger.subnets import _candidates
from orchestrator.sidecars import Health, PodTerms, Sidecar
from scoring.vocabulary import Outcome, Reason

if TYPE_CHECKING:
    from tests.integration.agents.conftest import Seen

pytestmark = pytest.mark.docker

ASSETS: Final = Path(__file__).parents[2] / "assets"
SCRIPT: Final = """
# One call of the task's server, then the file of the two-turn task.
format = "assize.rehearsal/1"
models = ["rehearsal-openai", "rehearsal-anthropic"]

[[turn]]
say = "I will ask the server."
call = {{ tool = "{tool}", arguments = {{ a = 19, b = 23 }} }}

[[turn]]
say = "I will write the file."
run = "echo hello > hello.txt"

[[turn]]
say = "Done: hello.txt holds the greeting."
"""
POOL: Final = IPv4Network("10.216.0.0/16")
UP: Final = Health(
    ("python3", "-c", "import socket; socket.create_connection(('localhost', 8000), 2)"), interval_ms=500
)
ADDER: Final = {
    "name": "adder",
    "transport": "streamable-http",
    "url": "http://adder:8000/mcp",
    "headers": {"X-Word": 'a "quoted" word'},
}
RunAgent = Callable[..., "tuple[AttemptReport, Seen]"]


@pytest.fixture
def slow_s() -> int:
    """How long the server takes for its first answer."""
    return 0


@pytest.fixture
def with_adder(base_image: str, slow_s: int) -> dict[str, Any]:
    """What a task with the adding server changes in an order."""
    program = (ASSETS / "services" / "mcp_server.py").read_text("utf-8")
    server = Sidecar(
        name="adder",
        image=base_image,
        command=("python3", "-c", program, str(slow_s)),
        health=UP,
        memory_bytes=64 << 20,
        pids=64,
    )
    pod = PodTerms(str(next(_candidates(new_id(), POOL, 28))), base_image, (server,))
    return {"pod": pod, "mcp_servers": (ADDER,)}


@pytest.mark.parametrize(
    ("name", "tool", "slow_s"),
    [
        ("claude-code", "mcp__adder__add", 0),
        # By itself it asks the model without the tools after 20 s and more.
        ("claude-code", "mcp__adder__add", 25),
        ("codex", "add", 0),
    ],
)
def test_a_known_agent_calls_the_server_of_its_task(
    name: str, tool: str, run_agent: RunAgent, with_adder: dict[str, Any], tmp_path: Path
) -> None:
    """Its own client finds the server by the profile's words; the server saw the call, the model the sum."""
    script = tmp_path / "ask.toml"
    script.write_text(SCRIPT.format(tool=tool), "utf-8")
    report, seen = run_agent(name, str(script), **with_adder)
    assert report.decision.outcome is Outcome.PASSED, (report.observations, seen.files["agent/stdout.txt"])
    assert seen.files["services/adder.txt"] == b"add 19 23\n"
    assert len(seen.ledger) == 3
    requests = [one for one in seen.chain.records if one["kind"] == Kind.REQUEST]
    assert len(requests) == 3 and b"42" in seen.files["relay/trajectory.json"]


def test_an_agent_without_mcp_makes_the_try_not_evaluable(
    run_agent: RunAgent, with_adder: dict[str, Any]
) -> None:
    """By its profile, before anything is started or asked: no failure of the agent's work, and no pass."""
    report, seen = run_agent("mini-swe-agent", "hello", **with_adder)
    assert (report.decision.outcome, report.decision.reason) == (
        Outcome.NOT_EVALUABLE,
        Reason.AGENT_NOT_STARTABLE,
    )
    assert seen.sandbox["trouble"] == (
        "the task has the http MCP server adder, which this agent cannot use: it can use none"
    )
    assert "relay/transcript.jsonl" not in seen.files
