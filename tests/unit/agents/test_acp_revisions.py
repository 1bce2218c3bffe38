"""Agents that are talked to, as revisions: the protocol and its policy are below the digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agents.bundle import BundleEntry, BundleManifest
from orchestrator.agents.errors import AgentError
from orchestrator.agents.launching import AcpTerms
from orchestrator.agents.packed import revision_of
from orchestrator.agents.packing.pack import described
from orchestrator.agents.profile import FILE_NAME, PackedFacts, find_profile, load_profile, parse_profile
from orchestrator.agents.revision import AgentRevision, decode_revision, parse_revision

GOOD = (Path(__file__).parents[2] / "assets" / "agents" / "profiles" / "good.toml").read_text("utf-8")
SPOKEN = GOOD + '\n[launch.acp]\nargv = ["{{bundle}}/app/bin/sample", "--acp", "{{model}}"]\n'
BUNDLE = BundleManifest((BundleEntry("f", True, 1, "0" * 64, "app/bin/sample"),))
OWN = '[agent]\nname = "mine"\nversion = "1"\nkind = "acp"\n[run]\ncommand = ["python3"]\n'


def packed(text: str, *, acp: bool) -> AgentRevision:
    """The revision of a profile that was packed."""
    facts = PackedFacts(version="1.2.3", machine="x86_64", sources=(), acp=acp)
    return revision_of(parse_profile(described(text, facts), FILE_NAME), BUNDLE)


def test_a_packed_agent_is_talked_to_if_it_was_packed_so() -> None:
    """The same bundle in two ways is two revisions; the command is the protocol's own."""
    plain, spoken = packed(SPOKEN, acp=False), packed(SPOKEN, acp=True)
    assert (plain.kind, plain.acp) == ("packed", None) and plain.digest != spoken.digest
    assert (spoken.kind, spoken.acp) == ("acp", AcpTerms())
    assert spoken.launch is not None and spoken.launch.acp is None
    assert spoken.launch.argv == ("{{bundle}}/app/bin/sample", "--acp", "{{model}}")
    assert decode_revision(spoken.canonical_bytes(), "x") == spoken


def test_a_profile_without_the_protocol_cannot_be_packed_so() -> None:
    """One sentence."""
    with pytest.raises(AgentError, match="does not say how it speaks"):
        packed(GOOD, acp=True)


def test_the_command_of_the_protocol_is_checked_like_the_other() -> None:
    """It has no place for an instruction, which comes as a message; its program is in the bundle."""
    with pytest.raises(AgentError, match=r"acp.argv uses \{\{instruction\}\}"):
        parse_profile(SPOKEN.replace('"--acp"', '"{{instruction}}"'), "x")
    with pytest.raises(AgentError, match="names app/bin/other"):
        packed(SPOKEN.replace('sample", "--acp"', 'other", "--acp"'), acp=True)


def test_the_policy_is_part_of_the_revision(tmp_path: Path) -> None:
    """Declared or not, it is written down."""
    allowed = parse_revision(OWN, tmp_path, "x").revision
    assert allowed.kind == "acp" and allowed.acp == AcpTerms(permission="allow")
    refused = parse_revision(OWN + '[acp]\npermission = "reject"\n', tmp_path, "x").revision
    assert refused.digest != allowed.digest
    assert (
        parse_revision(OWN + '[acp]\npermission = "allow"\n', tmp_path, "x").revision.digest == allowed.digest
    )


def test_agents_of_other_kinds_keep_their_digest() -> None:
    """Stored revisions do not know of the protocol."""
    assert "acp" not in AgentRevision(name="a", version="1", kind="nop").as_data()
    launch = packed(GOOD, acp=False).as_data()["launch"]
    assert "acp" not in launch


@pytest.mark.parametrize("name", ["opencode", "gemini-cli", "qwen-code", "copilot", "vibe"])
def test_profiles_that_speak_it(name: str) -> None:
    """agents.md section 6, measured with these."""
    launch = load_profile(find_profile(name)).launch
    assert launch.acp is not None and any("acp" in part for part in launch.acp.argv)
    assert launch.acp.permission == "allow"
