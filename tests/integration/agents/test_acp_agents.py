"""Agents that are talked to by the agent client protocol, in real sandboxes: one honest, hostile twins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.agents.bundle import read_bundle
from orchestrator.agents.revision import load_revision
from orchestrator.attempts import AttemptOrder, AttemptReport, Caps
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.screenings.orders import plain_agent
from workers.attempt.runner import AttemptRunner

pytestmark = pytest.mark.docker

AGENT: Final = Path(__file__).parents[2] / "assets" / "agents" / "acp" / "agent.py"
MIB: Final = 1 << 20
CAPS: Final = Caps(20_000, 20_000, 128 * MIB, 1000, 64, 8 * MIB, 8 * MIB)
TEST: Final = (
    "test ! -e /tmp/reached.txt || exit 1\n"
    'if [ "$(cat /tmp/out.txt 2>/dev/null)" = done ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt"
)
WRONG: Final = ("failed", "wrong_output")
Talk = Callable[..., tuple[AttemptReport, Any]]

FILE: Final = """
[agent]
name = "scripted"
version = "1"
kind = "acp"

[run]
bundle = "bundle"
command = ["./agent.py"]
env = {{ ACP_MODE = "{mode}" }}

[acp]
permission = "{permission}"
"""


@pytest.fixture
def talk(
    runner: AttemptRunner, control: Any, make_order: Callable[..., AttemptOrder], tmp_path: Path
) -> Talk:
    """Runs the scripted agent in a mode; the report, and what is written of the talk."""
    (tmp_path / "bundle").mkdir()
    program = tmp_path / "bundle" / "agent.py"
    program.write_text("#!/usr/bin/env python3\n" + AGENT.read_text("utf-8"), "utf-8")
    program.chmod(0o755)

    def run(mode: str, *, permission: str = "allow", **changes: Any) -> tuple[AttemptReport, Any]:
        file = tmp_path / "agent.toml"
        file.write_text(FILE.format(mode=mode, permission=permission), "utf-8")
        revision = load_revision(file).revision
        given = {"caps": CAPS, "agent_user": "1000:1000", "instruction": "Write done.\n", **changes}
        order = make_order(
            "true",
            TEST,
            agent=plain_agent(revision, None),
            bundle_dir=tmp_path / "bundle",
            bundle_digest=read_bundle(tmp_path / "bundle").digest,
            **given,
        )
        report = runner(order, control)
        store = EvidenceStore(order.evidence_root)
        assert report.manifest_digest is not None, report.observations
        files = EvidenceManifest.from_bytes(store.read(report.manifest_digest, MIB)).files
        (found,) = [one.sha256 for one in files if one.path == "agent/acp.json" and one.sha256]
        return report, json.loads(store.read(found, MIB))

    return run


def end_of(report: AttemptReport) -> tuple[str, str]:
    return report.decision.outcome.value, report.decision.reason.value


def test_an_agent_is_talked_to_until_its_turn_is_over(talk: Talk) -> None:
    """Its prompt is the instruction; what it claims is written down; it is killed although it would stay."""
    report, said = talk("work")
    assert end_of(report) == ("passed", "all_checks_passed"), (report.observations, said)
    assert (said["why"], said["turns"]) == ("finished", 1)
    assert said["claims"] == {
        "agent": {"name": "scripted", "version": "1"},
        "answer": "It is done.",
        "turns": [{"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 5}}],
    }
    assert said["log"]["permissions"] == [{"tool": "write out.txt", "chosen": "allow_always"}]
    assert said["log"]["refused"] == {"fs/write_text_file": 1} and said["log"]["strangeLines"] == 1
    assert report.observations["agent_exit_code"] is None and report.observations["agent_clock"] is None


def test_children_do_not_outlive_the_talk(talk: Talk) -> None:
    """A process in a session of its own dies with the rest: the container is killed."""
    report, said = talk("children")
    assert end_of(report) == ("passed", "all_checks_passed") and said["why"] == "finished"


def test_permission_can_be_refused_by_declaration(talk: Talk) -> None:
    """The policy is the revision's, so that it is below its digest; what was chosen is written down."""
    report, said = talk("work", permission="reject")
    assert end_of(report) == WRONG
    assert said["log"]["permissionsByChoice"] == {"reject_once": 1}


@pytest.mark.parametrize(
    ("mode", "end", "why"),
    [
        ("silent", ("failed", "timeout"), "unfinished"),
        ("wrong-ids", ("failed", "timeout"), "unfinished"),
        ("exits", ("failed", "crash"), "unfinished"),
        ("huge-line", WRONG, "broken"),
        ("not-json", WRONG, "broken"),
        ("asks-for-ever", WRONG, "broken"),
        ("deaf", WRONG, "broken"),
        ("floods", ("failed", "output_limit"), "unfinished"),
    ],
)
def test_hostile_twins(mode: str, end: tuple[str, str], why: str, talk: Talk) -> None:
    """Each is ended by a bound or a clock of ours, graded as it is, and never a fault of the platform."""
    short = Caps(3_000, 20_000, 128 * MIB, 1000, 64, 8 * MIB, 8 * MIB)
    report, said = talk(mode, caps=short if end[1] == "timeout" else CAPS)
    assert end_of(report) == end, (report.observations, said)
    assert (said["why"], said["turns"]) == (why, 0)


def test_an_agent_that_leaves_in_the_middle_of_a_long_prompt(talk: Talk) -> None:
    """What it left unread breaks the engine's connection: that is the agent's doing, not the engine's."""
    report, said = talk("leaves", instruction="x" * (4 << 20))
    assert end_of(report) == ("failed", "crash"), report.observations
    assert report.observations["agent_exit_code"] == 7 and said["why"] == "unfinished"


def test_servers_of_a_task_that_the_agent_cannot_use(talk: Talk) -> None:
    """It is told before anything is asked of it, with the kind in words."""
    server = {"name": "desk", "transport": "streamable-http", "url": "http://desk:8000/mcp", "headers": {}}
    report, said = talk("work", mcp_servers=(server,))
    assert said["why"] == "lacking" and "http MCP servers" in said["detail"]
    assert end_of(report) == WRONG
