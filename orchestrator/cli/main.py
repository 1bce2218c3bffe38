"""Entry point: one group of lazily imported commands, one place where errors become exit codes."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any, Final

import click

from orchestrator.errors import AssizeError

EXIT_INTERRUPTED: Final = 130

_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "agents": ("orchestrator.cli.agents", "Agent revisions: list, show, add."),
    "doctor": ("orchestrator.cli.doctor", "What this machine lacks, and how to mend it."),
    "images": ("orchestrator.cli.images", "Images of the sandboxes and the Ids they are pinned by."),
    "packs": ("orchestrator.cli.packs", "Benchmark packs: list, show, check, freeze."),
    "score": ("orchestrator.cli.score", "Pack Score card of a screening, from what verifies."),
    "screen": ("orchestrator.cli.screen", "Screen agents on a pack; the same command resumes."),
    "status": ("orchestrator.cli.status", "Where screenings stand."),
    "tries": ("orchestrator.cli.tries", "The tries of a screening."),
    "try": ("orchestrator.cli.one_try", "One try with every attempt and its evidence."),
    "verify": ("orchestrator.cli.verify", "Verify certificates offline."),
}


class LazyGroup(click.Group):
    """Imports a command's module only when it is needed, so that `--help` and `--version` stay fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found = getattr(importlib.import_module(_COMMANDS[cmd_name][0]), "command")  # noqa: B009
        command: click.Command = found
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done as asked, 1 a check said no, 2 wrong input, 3 finished but does not count in"
    " full, 4 undecided or cannot run here, 130 interrupted and resumable.",
)
@click.version_option(package_name="assize", prog_name="assize")
@click.option("--home", metavar="DIR", help="Folder of ledger, evidence, keys. [env: ASSIZE_HOME]")
@click.option("--debug", is_flag=True, help="Show tracebacks and internal log lines.")
@click.pass_context
def cli(context: click.Context, home: str | None, debug: bool) -> None:
    """Assize screens AI agents on benchmark packs in sandboxes, certifies every try and scores only what
    verifies.

    \b
    Examples:
      assize screen coding-core --agent oracle --agent nop
      assize verify .assize/certificates/<screening>/screening.zip
    """
    context.obj = {"home": home, "debug": debug}
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, format="%(name)s: %(message)s")
    if debug:
        logging.getLogger("urllib3").setLevel(logging.WARNING)


def main(arguments: list[str] | None = None) -> None:
    """Run the CLI; expected failures become one or two lines and an exit code, never a traceback."""
    try:
        code = cli.main(arguments, standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except AssizeError as error:
        _report(error)
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _report(error: AssizeError) -> None:
    context: Any = click.get_current_context(silent=True)
    click.echo(f"error: {error.message} [{error.code}]", err=True)
    if error.hint:
        click.echo(f"  next: {error.hint}", err=True)
    if (context.obj or {}).get("debug") if context else "--debug" in sys.argv:
        logging.getLogger(__name__).error("where it happened", exc_info=error)
