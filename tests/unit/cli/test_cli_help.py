"""Help, version and the generated reference (CLI-8, CLI-12)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from orchestrator.cli import exits, reference
from orchestrator.cli.lazy import LazyGroup
from orchestrator.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[3]
HEAVY = ("sqlalchemy", "alembic", "docker", "requests", "pydantic", "numpy", "scipy", "cryptography", "rich")
EVERY = {name: (command, context) for name, command, context in reference.commands()}
LEAVES = [name for name, (command, _) in EVERY.items() if not isinstance(command, click.Group)]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], []])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    """Listing the commands must not import what running them needs."""
    script = (
        "import sys\n"
        "from orchestrator.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else code)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    # Without any argument the help is an answer to a wrong call.
    assert ran.returncode == (exits.DONE if arguments else exits.WRONG_INPUT), ran.stderr


def test_the_detector_of_heavy_imports_can_fail() -> None:
    """The same script sees what `status` imports."""
    script = "import sys, orchestrator.cli.status; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 1


def test_every_command_of_the_issue_is_there() -> None:
    """Issue 2, item 11."""
    wanted = {"doctor", "packs", "agents", "images", "screen", "status", "tries", "try", "score", "verify"}
    assert wanted <= set(COMMANDS)
    for name in ("packs list", "packs show", "packs check", "packs freeze", "agents add", "images build"):
        assert f"assize {name}" in EVERY


@pytest.mark.parametrize("name", EVERY)
def test_help_has_two_examples_and_the_next_command(name: str) -> None:
    """CLI-8: two real command lines (each names an existing command) and where to go from here."""
    command, context = EVERY[name]
    text = command.get_help(context)
    block = text.partition("Examples:")[2].strip().split("\n\n")[0]
    examples = [line.strip() for line in block.splitlines()]
    assert len(examples) == 2, text
    for example in examples:
        words = example.replace("--home ./.assize ", "").split()
        path = " ".join(words[:3]) if " ".join(words[:3]) in EVERY else " ".join(words[:2])
        assert path in EVERY, example
    assert "Next: assize" in text or "Next: make setup" in text


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_json(name: str) -> None:
    """CLI-2."""
    command, context = EVERY[name]
    assert any("--json" in one.opts for one in command.get_params(context))


@pytest.mark.parametrize("name", EVERY)
def test_every_option_is_explained(name: str) -> None:
    """No bare option in any help."""
    command, context = EVERY[name]
    for one in command.get_params(context):
        if isinstance(one, click.Option):
            assert one.help, f"{name} {one.opts}"


@pytest.mark.parametrize("group", ["assize", "assize packs"])
def test_lazy_listings_say_what_the_command_says(group: str) -> None:
    """The line of a command that is not imported equals that of the command itself."""
    command, context = EVERY[group]
    assert isinstance(command, LazyGroup)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        assert command.line_of(name) == found.get_short_help_str(limit=200)


def test_help_states_the_table_of_exit_codes() -> None:
    """CLI-4: one table, in the help and in the reference."""
    text = " ".join(cli.get_help(click.Context(cli)).split())
    for code, meaning in exits.TABLE.items():
        assert f"{code} {meaning}" in text
        assert f"| {code} | {meaning} |" in reference.text()


def test_the_reference_is_that_of_the_program() -> None:
    """docs/cli.md is generated; make it again with `python -m orchestrator.cli.reference > docs/cli.md`."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference.text()


def test_reference_as_a_program_prints_the_document() -> None:
    """The command that the document names works."""
    ran = subprocess.run(
        [sys.executable, "-m", "orchestrator.cli.reference"], capture_output=True, text=True, cwd=ROOT
    )
    assert (ran.returncode, ran.stdout) == (0, reference.text())


def test_output_on_a_terminal_without_utf8() -> None:
    """A dash that cannot be encoded is escaped instead of ending the program."""
    script = "from orchestrator.cli.main import main; main(['packs', 'list'])"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        env={"PYTHONIOENCODING": "latin-1", "HOME": "/tmp"},
    )
    assert ran.returncode == 0, ran.stderr
    assert b"\\u2014" in ran.stdout


def test_a_closed_pipe_is_no_error() -> None:
    """`assize packs list | head -0`: quiet, exit 0."""
    script = (
        "import sys\n"
        "from orchestrator.cli.main import main\n"
        "sys.stdin.readline()\n"
        "main(['packs', 'list', '--json'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"go\n")
        process.stdin.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")
