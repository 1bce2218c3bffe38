"""README and docs are true: their commands exist, their links lead somewhere, their examples parse."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import click
import pytest

from orchestrator.agents.revision import parse_revision
from orchestrator.cli.main import cli

ROOT = Path(__file__).parents[3]
# docs/cli.md is generated from the commands themselves and diffed by its own test.
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "cli.md"})
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """Every `assize ...` line of the fenced blocks, as argument lists without comments and redirections."""
    lines = [line.strip() for _, block in FENCE.findall(text) for line in block.splitlines()]
    split = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("assize ")]
    return [[*takewhile(lambda word: word != ">", words)] for words in split]


def resolve(arguments: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the arguments name, and what is left for it."""
    found: click.Command = cli
    context = click.Context(cli)
    rest = list(arguments)
    while isinstance(found, click.Group) and rest:
        if rest[0] == "--home":
            rest = rest[2:]
            continue
        inner = found.get_command(context, rest[0])
        assert inner is not None, f"there is no command {rest[0]}"
        found, rest = inner, rest[1:]
    return found, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    """Every command line shown exists with these options and this number of arguments."""
    for arguments in commands(page.read_text()):
        found, rest = resolve(arguments)
        if isinstance(found, click.Group) or "--help" in rest:
            continue
        # With the program's own settings: a command remembers the names of its help option.
        parent = click.Context(cli, info_name="assize", **cli.context_settings)
        with found.make_context(found.name, rest, parent=parent):
            pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files of this repository."""
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_readme_is_short_and_names_real_make_targets() -> None:
    """Issue 2: under 150 lines; the two commands are targets of the Makefile."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)", text)) <= targets


def test_ci_runs_the_readme_test_command() -> None:
    """`.ci/run` calls exactly the README's test command."""
    assert re.search(r"^exec make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_the_example_agent_is_a_valid_revision(tmp_path: Path) -> None:
    """The TOML shown registers as it stands, with a bundle as described."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "bundle" / "run.sh").chmod(0o755)
    block = next(body for kind, body in FENCE.findall((ROOT / "README.md").read_text()) if kind == "toml")
    parsed = parse_revision(block, tmp_path, "README.md")
    assert parsed.revision.run is not None and parsed.revision.run.command == ("/opt/agent/run.sh",)
