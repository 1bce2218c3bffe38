"""The registry: copied, content-addressed, immutable; names, versions and digest prefixes resolve."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agents.bundle import read_bundle
from orchestrator.agents.errors import AgentError, BundleError
from orchestrator.agents.registry import add, list_agents, resolve, show
from orchestrator.errors import NotFoundError
from orchestrator.home import Home

TOML = """
[agent]
name = "{name}"
version = "{version}"
kind = "exec"
[run]
command = ["run.sh"]
bundle = "bundle"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of an agent's author."""
    (tmp_path / "src" / "bundle" / "lib").mkdir(parents=True)
    run = tmp_path / "src" / "bundle" / "run.sh"
    run.write_text("#!/bin/sh\n")
    run.chmod(0o755)
    (tmp_path / "src" / "bundle" / "lib" / "current").symlink_to("../run.sh")
    return tmp_path / "src"


def _file(source: Path, name: str = "mine", version: str = "1") -> Path:
    path = source / f"{name}-{version}.toml"
    path.write_text(TOML.format(name=name, version=version))
    return path


def test_the_built_in_agents_are_always_there(home: Home) -> None:
    """oracle, nop and the reference agent shell, versioned, without bundle."""
    assert [(agent.revision.label, agent.builtin) for agent in list_agents(home)] == [
        ("nop@1", True),
        ("oracle@1", True),
        ("shell@1", True),
    ]
    assert show(home, "oracle").revision.kind == "oracle"
    assert show(Home(home.root / "never-made"), "nop@1").revision.kind == "nop"
    assert show(home, "nop").bundle_dir is None


def test_adding_copies_the_bundle_and_is_idempotent(home: Home, source: Path) -> None:
    """Afterwards the author's folder does not matter any more."""
    agent = add(home, _file(source))
    assert agent.bundle_dir is not None and agent.bundle_dir.name == agent.revision.bundle_digest
    assert add(home, _file(source)) == agent
    (source / "bundle" / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    assert show(home, "mine") == agent
    agent.verify_bundle()
    assert read_bundle(agent.bundle_dir).digest == agent.revision.bundle_digest
    assert (agent.bundle_dir / "lib" / "current").is_symlink()
    assert (agent.bundle_dir / "run.sh").stat().st_mode & 0o777 == 0o755
    leftovers = [path for path in home.agents.rglob("*") if path.name.startswith(".")]
    assert leftovers == []


def test_a_name_and_version_never_changes_content(home: Home, source: Path) -> None:
    """Other content needs another version; the old one stays."""
    agent = add(home, _file(source))
    (source / "bundle" / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(AgentError, match="mine@1 is already registered with other content") as caught:
        add(home, _file(source))
    assert caught.value.hint is not None and "agent.version" in caught.value.hint
    second = add(home, _file(source, version="2"))
    assert second.digest != agent.digest
    assert show(home, "mine@1") == agent


def test_names_versions_prefixes_and_files_resolve(home: Home, source: Path) -> None:
    """A file is registered on use; several matches are listed."""
    first = resolve(home, str(_file(source)))
    second = resolve(home, str(_file(source, version="2")))
    assert resolve(home, "mine@2") == second
    assert resolve(home, first.digest) == resolve(home, first.digest[:12]) == first
    with pytest.raises(NotFoundError, match=r"mine means several agents: mine@1 .*, mine@2"):
        resolve(home, "mine")
    with pytest.raises(NotFoundError, match="no agent is called orakel") as caught:
        resolve(home, "orakel")
    assert caught.value.hint == "did you mean oracle?"
    with pytest.raises(NotFoundError, match=r"no agent file none\.toml"):
        resolve(home, "none.toml")
    with pytest.raises(NotFoundError, match="no agent is called"):
        resolve(home, first.digest[:3])


def test_the_names_and_kinds_of_built_in_agents_cannot_be_taken(home: Home, source: Path) -> None:
    """Nobody but the built-in oracle ever gets the reference solution."""
    with pytest.raises(AgentError, match="the name oracle belongs to a built-in agent"):
        add(home, _file(source, name="oracle", version="9"))
    path = source / "sly.toml"
    path.write_text('[agent]\nname = "sly"\nversion = "1"\nkind = "oracle"\n')
    with pytest.raises(AgentError, match="kind oracle is built in and cannot be registered"):
        add(home, path)
    assert len(list_agents(home)) == 3


def test_damage_to_what_is_stored_is_noticed(home: Home, source: Path) -> None:
    """A changed bundle fails its verification; a changed revision file is refused by digest."""
    agent = add(home, _file(source))
    assert agent.bundle_dir is not None
    (agent.bundle_dir / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(BundleError):
        agent.verify_bundle()
    path = home.agents / "revisions" / f"{agent.digest}.json"
    path.write_bytes(path.read_bytes().replace(b'"version":"1"', b'"version":"3"'))
    with pytest.raises(AgentError, match="the stored revision is damaged"):
        list_agents(home)
