"""Agent revision files: strict, digest-pinned, no secrets, nothing unmetered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.agents.environment import env_problem
from orchestrator.agents.errors import AgentError
from orchestrator.agents.revision import AgentRevision, decode_revision, load_revision
from orchestrator.errors import UsageError

ASSETS = Path(__file__).parents[2] / "assets" / "agents"
TOML = """
[agent]
name = "mine"
version = "1"
kind = "exec"
description = "Mine."
[model]
declared = "none"
[run]
command = ["run.sh", "--fast"]
bundle = "bundle"
env = { MODE = "quick" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small bundle beside the revision file."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "bundle" / "run.sh").chmod(0o755)
    (tmp_path / "bundle" / "data.txt").write_text("x")
    (tmp_path / "agent.toml").write_text(TOML)
    return tmp_path


@pytest.mark.parametrize("path", sorted(ASSETS.glob("bad-*.toml")), ids=lambda path: path.stem)
def test_bad_revisions_are_refused_with_the_reason(path: Path, folder: Path) -> None:
    """One sentence each, as the asset's header expects; a secret's value is never repeated."""
    text = path.read_text("utf-8")
    (folder / path.name).write_text(text)
    with pytest.raises(AgentError) as caught:
        load_revision(folder / path.name)
    assert isinstance(caught.value, UsageError)
    assert caught.value.message.startswith((f"agent {path.name}", f"agent {path.stem}"))
    assert text.splitlines()[0].removeprefix("# expect: ") in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_revision_is_read_and_its_program_made_absolute(folder: Path) -> None:
    """argv is what will be executed; the bundle's digest is part of the revision."""
    parsed = load_revision(folder / "agent.toml")
    revision = parsed.revision
    assert (revision.label, revision.kind, revision.models) == ("mine@1", "exec", ())
    assert revision.run is not None
    assert revision.run.command == ("/opt/agent/run.sh", "--fast")
    assert (revision.run.env, revision.run.wants_root) == ({"MODE": "quick"}, False)
    assert parsed.bundle is not None and revision.bundle_digest == parsed.bundle.digest
    assert parsed.bundle_dir == folder / "bundle"
    data = json.loads(json.dumps(revision.model_dump()))
    assert (data["kind"], data["run"]["command"][0]) == ("exec", "/opt/agent/run.sh")


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("run.sh", "/opt/agent/run.sh"),
        ("./run.sh", "/opt/agent/run.sh"),
        ("/opt/agent/run.sh", "/opt/agent/run.sh"),
        ("/bin/sh", "/bin/sh"),
        ("python3", "python3"),
    ],
)
def test_which_program_a_command_means(folder: Path, program: str, command: str) -> None:
    """The bundle's file first; absolute paths and unknown bare names belong to the task's image."""
    (folder / "agent.toml").write_text(TOML.replace("run.sh", program))
    run = load_revision(folder / "agent.toml").revision.run
    assert run is not None and run.command[0] == command


def test_the_digest_covers_everything(folder: Path) -> None:
    """Any change of the file or of a byte of the bundle is another revision; its place is not part of it."""
    first = load_revision(folder / "agent.toml").revision.digest
    seen = {first}
    for old, new in (
        ('version = "1"', 'version = "2"'),
        ('"Mine."', '"Ours."'),
        ('"--fast"', '"--slow"'),
        ('"quick"', '"thorough"'),
        ("[run]", "[run]\nwants_root = true"),
    ):
        (folder / "agent.toml").write_text(TOML.replace(old, new))
        seen.add(load_revision(folder / "agent.toml").revision.digest)
    (folder / "agent.toml").write_text(TOML)
    (folder / "bundle" / "data.txt").write_text("y")
    seen.add(load_revision(folder / "agent.toml").revision.digest)
    assert len(seen) == 7
    (folder / "bundle" / "data.txt").write_text("x")
    (folder / "bundle").rename(folder / "elsewhere")
    (folder / "agent.toml").write_text(TOML.replace('"bundle"', '"elsewhere"'))
    assert load_revision(folder / "agent.toml").revision.digest == first


def test_a_stored_revision_is_read_back_or_refused() -> None:
    """Only canonical bytes of a valid revision."""
    revision = AgentRevision(name="a", version="1", kind="nop")
    assert decode_revision(revision.canonical_bytes(), "a") == revision
    for raw in (b"{}", revision.canonical_bytes() + b" ", b"\xff"):
        with pytest.raises(AgentError, match="the stored revision is damaged"):
            decode_revision(raw, "a")


@pytest.mark.parametrize("name", ["MODE", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "STEPS_1"])
def test_harmless_variables_are_allowed(name: str) -> None:
    """The secret pattern must not refuse ordinary knobs."""
    assert env_problem(name, "5") is None


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    """Expected failures, no traceback."""
    with pytest.raises(AgentError, match=r"none\.toml cannot be read"):
        load_revision(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(AgentError, match=r"x\.toml cannot be read as text"):
        load_revision(tmp_path / "x.toml")
