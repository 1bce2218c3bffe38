"""Claude Code, codex and mini-swe-agent, unmodified, in a sandbox that has nothing but the relay.

ASSIZE_EVERY_AGENT=1 adds Gemini CLI and opencode, and every trouble of a provider for each of the five.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from orchestrator.agents.registry import RegisteredAgent
from orchestrator.attempts import AttemptReport, Caps
from orchestrator.evidence import metering
from orchestrator.evidence.claims import FILE_NAME, decode, differing
from orchestrator.evidence.transcript import Kind
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.self_test import self_test
from sandbox_images.base import BASE_IMAGE, OTHER_BASE
from scoring.vocabulary import Outcome, Reason
from workers.relay import watch
from workers.sandbox.preflight import judge

if TYPE_CHECKING:
    from tests.integration.agents.conftest import Seen

pytestmark = pytest.mark.docker

EVERY: Final = bool(os.environ.get("ASSIZE_EVERY_AGENT"))
AGENTS: Final = ("claude-code", "codex", "mini-swe-agent", *(("gemini-cli", "opencode") if EVERY else ()))
MIB: Final = 1 << 20
CAPS: Final = Caps(120_000, 20_000, 2048 * MIB, 2000, 512, 8 * MIB, 64 * MIB)
PATIENT: Final = replace(CAPS, agent_wall_ms=15_000)
"""For agents that ask again until their clock runs out."""
SILENT: Final = ("opencode",)
"""Keep what they did in a database of their own, which nobody here reads."""
FAULTS: Final = ("{ status = 429 }", "{ status = 500 }", "{ status = 529 }", "{ cut_after_events = 2 }")
TROUBLES: Final = [
    ("codex", "{ status = 429 }", CAPS),
    ("codex", "{ status = 500 }", CAPS),
    ("codex", "{ status = 529 }", CAPS),
    ("codex", "{ cut_after_events = 2 }", CAPS),
    ("mini-swe-agent", "{ status = 500 }", CAPS),
    ("claude-code", "{ status = 529 }", PATIENT),
]
RunAgent = Callable[..., "tuple[AttemptReport, Seen]"]
TROUBLE: Final = """
format = "assize.rehearsal/1"
models = ["rehearsal-openai", "rehearsal-anthropic", "rehearsal-google"]

[[turn]]
say = "I will write the file."
run = "echo hello > hello.txt"
fault = {fault}
times = 1000
"""


@pytest.mark.only_on("sqlite", "a self-test plans nothing, so nothing is asked of the ledger")
@pytest.mark.parametrize("image", [BASE_IMAGE, OTHER_BASE])
@pytest.mark.parametrize("name", AGENTS)
def test_the_two_turn_task_works(
    name: str,
    image: str,
    registered: Callable[[str], RegisteredAgent],
    installation: Installation,
    evidence_of: Callable[[str | None], Seen],
) -> None:
    """Issue 8: two steps, nothing refused, no host asked for, uid 1000, the transcript complete and exact.

    One bundle for two systems, under a root that nobody can write to.
    """
    found = self_test(installation, registered(name), image, lambda line: None, "strict")
    assert found.passed, (found, evidence_of(found.evidence).files["agent/stderr.txt"].decode())
    assert (found.steps, found.refused, found.exit_code) == (2, {}, 0)
    assert found.names_asked == ()
    seen = evidence_of(found.evidence)
    assert seen.command["user"] == "1000:1000"
    assert seen.sandbox["disk"] == "strict" and seen.sandbox["created"]["options"]["ReadonlyRootfs"]
    assert seen.sandbox["network"] == "relay-only" and judge(seen.sandbox["preflight"]) == []
    assert {line["completeness"] for line in seen.ledger} == {metering.EXACT}
    assert seen.chain.torn_bytes == 0 and seen.chain.records[-1]["kind"] == Kind.CLOSE
    # Its own transcript is an exhibit; its own figures are those of the record, but for the scripted price.
    if name not in SILENT:
        exhibits = [path for path in seen.files if path.startswith("agent/transcripts/")]
        claimed, record = decode(seen.files[FILE_NAME])
        assert exhibits and set(differing(claimed, record)) <= {"cost_nusd"}, (claimed, record)
    # What is written down for everybody to read holds no token.
    admitted = [record for record in seen.chain.records if record["kind"] == Kind.ADMIT]
    assert len(admitted) == 2 and b"ASSIZE_RELAY_TOKEN" not in seen.files["agent/command.json"]


@pytest.mark.parametrize("name", AGENTS)
def test_a_cap_refusal_ends_the_try(name: str, run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself or by the worker after the grace; never as a pass, always for the cap."""
    monkeypatch.setattr(watch, "GRACE_MS", 1_000)
    report, seen = run_agent(name, "hello", cap_nusd=1_000)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.FAILED, Reason.COST_CAP), (
        report.observations
    )
    assert seen.ledger == []


@pytest.mark.parametrize(
    ("name", "fault", "caps"),
    [(name, fault, PATIENT) for name in AGENTS for fault in FAULTS] if EVERY else TROUBLES,
)
def test_trouble_of_the_provider_is_not_the_agents(
    name: str, fault: str, caps: Caps, run_agent: RunAgent, tmp_path: Path
) -> None:
    """codex, told not to retry, and mini give up: their exit codes count for nothing. Claude Code waits and
    asks again until its clock runs out, and that does not make it slow."""
    script = tmp_path / "trouble.toml"
    script.write_text(TROUBLE.format(fault=fault), "utf-8")
    report, _ = run_agent(name, str(script), caps=caps)
    assert report.observations["agent_exit_code"] != 0
    assert (report.decision.outcome, report.decision.reason) == (
        Outcome.PLATFORM_FAULT,
        Reason.PROVIDER_OUTAGE,
    )


def test_the_output_limit_reaches_the_provider(run_agent: RunAgent) -> None:
    """Claude Code asks for what the conditions say, not for its own 32,000."""
    _, seen = run_agent("claude-code", "hello")
    asked = [record["data"] for record in seen.chain.records if record["kind"] == Kind.ADMIT]
    assert [(one["outputLimit"], one["injected"]) for one in asked] == [(8192, {}), (8192, {})]
