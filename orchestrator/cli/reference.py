"""`docs/cli.md` from the command tree: `python -m orchestrator.cli.reference > docs/cli.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from orchestrator.cli import exits
from orchestrator.cli.main import cli

_HEAD = """\
# The command line

<!-- Made by `python -m orchestrator.cli.reference`; a test compares it with the program. -->

Data goes to standard output, progress and messages to standard error. `--json` prints one object with a
`schema` id (`assize.<command>/1`); times in it are Unix milliseconds UTC, money is a string of integer
nano-USD, and what is missing is null (an em dash in text, nothing in CSV). Lists have `-o table|csv|json|md`,
`--columns` and `--no-header`. Every id may be shortened to a beginning that only one object has. Text that
an agent or a pack wrote is shown with its control characters made visible.

## Exit codes

| code | meaning |
| --- | --- |
"""

_COMPLETION = """
## Completion

Commands, options, packs, agents and ids are completed by the shell:

```
eval "$(_ASSIZE_COMPLETE=bash_source assize)"      # bash, in ~/.bashrc
eval "$(_ASSIZE_COMPLETE=zsh_source assize)"       # zsh, in ~/.zshrc
_ASSIZE_COMPLETE=fish_source assize | source       # fish, in ~/.config/fish/completions/assize.fish
```
"""


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and everything below it, in the order of `--help`."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from walk(below, click.Context(below, info_name=name, parent=context))


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its full name (`assize packs show`) and a context for it."""
    for command, context in walk(cli, click.Context(cli, info_name="assize", **cli.context_settings)):
        yield context.command_path, command, context


def _section(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {name}\n" if name.count(" ") < 2 else f"\n### {name}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{name} {usage}".rstrip() + "\n```\n"
    yield from _paragraphs(command)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    rows = [record for one in options if (record := one.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n| --- | --- |"
        for option, text in rows:
            yield f"| `{option.replace('|', chr(92) + '|')}` | {_cell(text)} |"
    if isinstance(command, click.Group):
        below = [(sub, command.get_command(context, sub)) for sub in command.list_commands(context)]
        yield "\n" + "\n".join(
            f"- `{name} {sub}`: {found.get_short_help_str(200)}" for sub, found in below if found
        )
    if command.epilog:
        yield "\n" + command.epilog.partition(" Exit codes:")[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _paragraphs(command: click.Command) -> Iterator[str]:
    """The help text; a block that click leaves alone (`\\b`) becomes a code block."""
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = block.split("\n")
        if lines[0] == "\b":
            yield f"{lines[1]}\n\n```\n" + "\n".join(line.strip() for line in lines[2:]) + "\n```\n"
        else:
            yield block + "\n"


def text() -> str:
    """The whole document."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in exits.TABLE.items())
    parts = [_HEAD + codes + _COMPLETION.rstrip("\n")]
    for name, command, context in commands():
        parts += _section(name, command, context)
    return "\n".join(parts).rstrip("\n") + "\n"


if __name__ == "__main__":
    click.echo(text(), nl=False)
