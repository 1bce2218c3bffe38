"""`assize packs check`: the admission gate of a pack, run for real."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.output import cell, emit, home_of, json_option, say, table
from orchestrator.packs import catalog
from orchestrator.packs.admission import AdmissionReport
from orchestrator.screenings.gate import check_pack
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import chosen_tasks


@click.command(
    "check",
    short_help="Run the admission gate: oracle 3 of 3, nop fails, grading stable.",
    epilog="Next: assize screen PACK --agent AGENT.",
)
@click.argument("pack", shell_complete=completion.packs)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeat for more.")
@click.option(
    "--parallel", type=click.IntRange(1, 256), help="Attempts at once. [default: cores of this host]"
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    pack: str,
    tasks: tuple[str, ...],
    parallel: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Check that PACK may be used: digests, the reference solution passes 3 of 3, doing nothing fails,
    grading the same end state twice gives the same number.

    Exit 0 when every task is admitted, 1 when one is refused.

    \b
    Examples:
      assize packs check coding-core
      assize packs check ./my-tasks --task fix-login
    """
    home = home_of(context)
    found = catalog.resolve(home, pack).load()
    installation = Installation.open(home)
    try:
        report = check_pack(
            installation,
            found,
            chosen_tasks(found, tasks),
            parallel=parallel or os.cpu_count() or 1,
            say=(lambda line: None) if quiet else (lambda line: say(f"  {line}")),
        )
    finally:
        installation.close()
    if as_json:
        emit("assize.packs-check/1", {"pack": found.label, **_data(report)})
    else:
        _show(found.label, report)
    context.exit(exits.DONE if report.admitted else exits.REFUSED)


def _data(report: AdmissionReport) -> dict[str, Any]:
    return {"admitted": report.admitted, **asdict(report)}


def _show(label: str, report: AdmissionReport) -> None:
    rows = [
        (
            task.task_id,
            task.verdict,
            f"{task.oracle_passes}/{task.oracle_runs}",
            "yes" if task.nop_fails else "NO",
            "yes" if task.grader_stable else "NO",
        )
        for task in report.tasks
    ]
    table(("task", "verdict", "oracle", "nop fails", "grading stable"), rows)
    for task in report.tasks:
        for reason in task.reasons:
            click.echo(cell(f"{task.task_id}: {reason}"))
    click.echo(f"{label}: {'admitted' if report.admitted else 'REFUSED'}")
