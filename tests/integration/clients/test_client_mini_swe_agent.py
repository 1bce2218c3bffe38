"""mini-swe-agent, unmodified and as its users start it, works a task through the relay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from orchestrator.evidence import metering
from orchestrator.evidence.transcript import Kind
from scoring.vocabulary import Outcome
from workers.sandbox.preflight import judge

if TYPE_CHECKING:
    from tests.integration.clients.conftest import RunClient

pytestmark = pytest.mark.docker

SETTINGS: Final = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
}


def test_mini_swe_agent_works_the_hello_script(run_client: RunClient) -> None:
    """It ends by itself after two steps, and its own record of its calls is the relay's."""
    ran = run_client(["/opt/agent/mini.sh"], ["rehearsal-openai"], ["."], script="hello", env=SETTINGS)
    assert ran.report.observations["agent_exit_code"] == 0, ran.files["agent/stderr.txt"].decode()
    assert ran.report.decision.outcome is Outcome.PASSED, ran.report.observations
    assert ran.carried("/tmp/hello.txt") == b"hello\n"

    trajectory = json.loads(ran.carried("/tmp/trajectory.json"))
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert trajectory["info"]["model_stats"]["api_calls"] == len(ran.ledger) == 2
    told = [
        message["extra"]["response"]["usage"]
        for message in trajectory["messages"]
        if "response" in message.get("extra", {})
    ]
    assert [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in told] == [
        (line["inputTokens"], line["outputTokens"]) for line in ran.ledger
    ]

    assert {line["completeness"] for line in ran.ledger} == {metering.EXACT}
    assert ran.chain.torn_bytes == 0 and ran.chain.records[-1]["kind"] == Kind.CLOSE
    assert ran.sandbox["relay"]["lane"]["tally"]["refusals"] == {}
    assert ran.sandbox["network"] == "relay-only" and judge(ran.sandbox["preflight"]) == []
