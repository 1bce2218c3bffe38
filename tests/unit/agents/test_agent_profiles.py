"""Profiles: strict data; every placeholder known where it stands; no secret, no way out of HOME."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agents.bundle import BundleEntry, BundleManifest, read_bundle
from orchestrator.agents.errors import AgentError
from orchestrator.agents.packed import load_packed, revision_of
from orchestrator.agents.packing.pack import described
from orchestrator.agents.profile import (
    FILE_NAME,
    PackedFacts,
    Source,
    find_profile,
    load_profile,
    parse_profile,
    profile_names,
)
from orchestrator.agents.revision import AgentRevision, ModelRole, decode_revision

GOOD = (Path(__file__).parents[2] / "assets" / "agents" / "profiles" / "good.toml").read_text("utf-8")
MCP = '[launch.mcp]\ntransports = ["http"]\nform = "codex-toml"'
BUILD = f'build = [{{ name = "x", version = "1", sha256 = "{"0" * 64}" }}]'
FACTS = PackedFacts(
    version="1.2.3",
    machine="x86_64",
    sources=(Source(registry="npm", name="@a/sample", version="1.2.3", integrity="sha512-AA=="),),
)


@pytest.mark.parametrize("name", profile_names())
def test_built_in_profiles_are_valid_and_named_by_their_file(name: str) -> None:
    """Every one can be packed: its registry is named, and its command stands in the bundle or the image."""
    profile = load_profile(find_profile(name))
    assert profile.agent.name == name and profile.packed is None
    program = profile.launch.argv[0]
    assert program.startswith("{{bundle}}/app/") or program in profile.launch.needs


def test_the_named_agents_of_the_issue_have_profiles() -> None:
    """Issue 8, item 3."""
    built_in = {"claude-code", "codex", "gemini-cli", "opencode", "mini-swe-agent"}
    assert built_in | {"qwen-code", "copilot", "vibe", "aider", "openhands"} == set(profile_names())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"{{instruction}}"]', '"{{instructions}}"]', "argv uses {{instructions}}"),
        ('"{{instruction}}"]', '"{{token}}"]', "argv uses {{token}}"),
        ("{{url}}/v1", "{{token}}", "files uses {{token}}"),
        ("{{url}}/v1", "{{workspace}}", "files uses {{workspace}}"),
        ('"{{model_small}}"', '"{{instruction}}"', "env uses {{instruction}}"),
        ("SAMPLE_SMALL", "HOME", "HOME is set by the run contract"),
        ("SAMPLE_SMALL", "LD_PRELOAD", "LD_PRELOAD is set by the run contract"),
        ("SAMPLE_SMALL", "sample", "'sample' is not an upper-case variable name"),
        ('"{{model_small}}"', '"sk-aaaaaaaaaaaaaaaaaaaaaaaa"', "SAMPLE_SMALL looks like a secret"),
        ('"plain"', '"../plain"', "'../plain' is no path below HOME"),
        ('"plain"', '"/etc/plain"', "'/etc/plain' is no path below HOME"),
        ('"plain"', '"a/./plain"', "'a/./plain' is no path below HOME"),
        ('route = "anthropic"', "", "anthropic-messages gives no route, another format does"),
        ('route = "anthropic"', 'route = "a b"', "anthropic-messages.route is no plain word"),
        ('route = "anthropic"', 'route = "a"\ntoken = "b"', "'token' is no free name"),
        ("launch.wires.openai-chat", "launch.wires.smoke", "launch.wires.smoke"),
        ("output_tokens = 32000", "", "limits.output_tokens is missing"),
        ('root = "vendor/*"', 'root = "../*"', "a path stays below its folder"),
        ('root = "vendor/*"', 'root = "/*"', "root"),
        ("sample-{{arch}}", "sample-{{model}}", "names of packages may use {{arch}} only"),
        ('name = "sample-{{arch}}",', 'name = "s", version = "1",', "exactly one npm package has no version"),
        ("npm = [", 'pip = "x"\nnpm = [', "takes its agent from npm or from pip"),
        ('stdin = "nothing"', 'stdin = "tty"', "launch.stdin"),
        ("[package]", '[package]\npython = ">=3.12"', "python and build are for packages of pip"),
        ("[package]", f"[package]\n{BUILD}", "python and build are for packages of pip"),
        ('stdin = "nothing"', 'stdin = "nothing"\nneeds = ["a b"]', "launch.needs[0]"),
        ("[launch.env]", f"{MCP}\n\n[launch.env]", "{{mcp_servers}} and mcp.form go together"),
        ('"plain" = "x"', '"plain" = "{{mcp_servers}}"', "{{mcp_servers}} and mcp.form go together"),
        ("[package]", "[package]\nscripts = true", "package.scripts is not a known key"),
    ],
)
def test_bad_profiles_are_refused_with_the_reason(old: str, new: str, said: str) -> None:
    """One sentence that names the key; a secret is never repeated."""
    assert old in GOOD
    with pytest.raises(AgentError) as caught:
        parse_profile(GOOD.replace(old, new), "profile sample.toml")
    assert said in caught.value.message and "sk-a" not in caught.value.message


def test_a_profile_that_is_not_there() -> None:
    """The hint lists those that are."""
    with pytest.raises(AgentError, match="there is no profile nobody") as caught:
        find_profile("nobody")
    assert "codex" in str(caught.value.hint)


def test_what_was_packed_is_read_back() -> None:
    """`assize-agent.toml` is the profile as it was, with what was packed before it."""
    found = parse_profile(described(GOOD, FACTS), FILE_NAME)
    assert found.packed == FACTS
    assert found.launch == parse_profile(GOOD, "good").launch


def bundle_in(folder: Path, *, executable: bool = True) -> Path:
    """A packed bundle of the sample."""
    (folder / "app" / "bin").mkdir(parents=True)
    program = folder / "app" / "bin" / "sample"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755 if executable else 0o644)
    (folder / FILE_NAME).write_text(described(GOOD, FACTS), "utf-8")
    return folder


def test_a_packed_folder_is_a_revision(tmp_path: Path) -> None:
    """It takes any model; profile and bundle are both below its digest, and it is stored and read back."""
    parsed = load_packed(bundle_in(tmp_path / "b"))
    revision = parsed.revision
    assert (revision.label, revision.kind, revision.any_model) == ("sample@1.2.3", "packed", True)
    assert revision.bundle_digest == read_bundle(tmp_path / "b").digest
    assert decode_revision(revision.canonical_bytes(), "x") == revision
    bound = revision.with_model(ModelRole(role="main", id="gpt-5", provider="openai"))
    assert bound.digest != revision.digest and bound.version == "1.2.3+gpt-5"
    (tmp_path / "b" / FILE_NAME).write_text(described(GOOD.replace('"x"', '"y"'), FACTS), "utf-8")
    assert load_packed(tmp_path / "b").revision.digest != revision.digest


def test_a_packed_folder_without_its_program_is_refused(tmp_path: Path) -> None:
    """Missing, not executable, or never packed at all."""
    with pytest.raises(AgentError, match=r"app/bin/sample is not executable"):
        load_packed(bundle_in(tmp_path / "x", executable=False))
    with pytest.raises(AgentError, match="names app/bin/sample, which the bundle does not hold"):
        revision_of(parse_profile(described(GOOD, FACTS), "x"), BundleManifest(()))
    with pytest.raises(AgentError, match="describes no bundle"):
        revision_of(parse_profile(GOOD, "x"), BundleManifest(()))
    with pytest.raises(AgentError, match=r"holds no assize-agent\.toml"):
        load_packed(tmp_path)


def test_agents_without_a_template_keep_their_digest() -> None:
    """A revision holds what differs from the defaults: digests of stored ones outlive new settings."""
    assert "launch" not in AgentRevision(name="a", version="1", kind="nop").as_data()
    bundle = BundleManifest((BundleEntry("f", True, 1, "0" * 64, "app/bin/sample"),))
    launch = revision_of(parse_profile(described(GOOD, FACTS), "x"), bundle).as_data()["launch"]
    assert "self_test" not in launch and "roles" not in launch and launch["limits"]["output_tokens"] == 32000
