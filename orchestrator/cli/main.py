"""Entry point: one group of lazily imported commands, one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Final

import click

from orchestrator.cli import exits, failures
from orchestrator.cli.lazy import LazyGroup

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "agents": ("orchestrator.cli.agents", "Agent revisions: list, show, add, pack, self-test."),
    "board": ("orchestrator.cli.board", "Same-question board over all closed screenings that verify."),
    "cancel": ("orchestrator.cli.cancel", "Give a screening up, whoever runs it."),
    "certificates": ("orchestrator.cli.certificates", "Certificates: show, export, notice."),
    "compare": ("orchestrator.cli.compare", "Two screenings task by task: can they be told apart?"),
    "compose": ("orchestrator.cli.compose", "Secrets and images for docker-compose.yml."),
    "db": ("orchestrator.cli.database", "The ledger's database: schema, backup, moving, roles."),
    "dispatch": ("orchestrator.cli.dispatch", "Dispatch and certify campaigns of many hosts until stopped."),
    "drill": ("orchestrator.cli.drill", "Faults injected for real: does each land where it must?"),
    "doctor": ("orchestrator.cli.doctor", "What this machine lacks, and how to mend it."),
    "images": ("orchestrator.cli.images", "Images of the sandboxes and the Ids they are pinned by."),
    "keys": ("orchestrator.cli.keys", "Keys and trust root: ceremony, rotation, revocation."),
    "log": ("orchestrator.cli.log", "The transparency log: status, witnesses, publishing."),
    "packs": ("orchestrator.cli.packs", "Benchmark packs: list, show, check, freeze."),
    "metrics": ("orchestrator.cli.metrics", "Figures for Prometheus, computed from the ledger."),
    "pause": ("orchestrator.cli.pause", "Start no further try of a screening."),
    "prices": ("orchestrator.cli.prices", "Dated list prices of models: show, check, import."),
    "resume": ("orchestrator.cli.resume", "Let a paused screening go on."),
    "score": ("orchestrator.cli.score", "Pack Score card of a screening, from what verifies."),
    "screen": ("orchestrator.cli.screen", "Screen agents on a pack; the same command resumes."),
    "status": ("orchestrator.cli.status", "Where screenings stand."),
    "tries": ("orchestrator.cli.tries", "The tries of a screening."),
    "try": ("orchestrator.cli.one_try", "One try with every attempt and its evidence."),
    "worker": ("orchestrator.cli.worker", "Workers of many hosts: run, list, health, drain."),
    "verify": ("orchestrator.cli.verify", "Verify certificates offline."),
}


class Program(LazyGroup):
    """The top of the tree."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that went away (`| head`) has seen what it wanted to see.

        click would end with 1 then, which is the code of a check that said no.
        """
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return exits.DONE


@click.command(
    cls=Program,
    members=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Next: assize doctor, assize COMMAND --help. {exits.SENTENCE}",
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
    failures.set_up_logging(debug)


def main(arguments: list[str] | None = None) -> None:
    """Run the CLI; failures become one or two lines and an exit code, never a traceback."""
    debug = "--debug" in (sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without UTF-8 shows \u2014 for a dash instead of failing.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments, debug))


def _run(arguments: list[str] | None, debug: bool) -> int:
    try:
        code = cli.main(arguments, standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return exits.INTERRUPTED
    except click.ClickException as error:
        return failures.report_usage(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: reported, with --debug in full
        return failures.report(error, debug=debug)
    return code if isinstance(code, int) else exits.DONE
