"""`assize drill`: faults injected for real, and whether each landed where it must."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import click

from orchestrator.cli import exits
from orchestrator.cli.output import cell, emit, json_option, say, table
from orchestrator.drills.drill import Report, chosen, drill
from orchestrator.drills.faultline import load_faultline
from orchestrator.drills.judge import SeenAttempt, Verdict
from orchestrator.drills.rows import Row, Scene

SCHEMA: Final = "assize.drill/1"
LIST_SCHEMA: Final = "assize.drill-rows/1"


@click.command(
    "drill",
    short_help="Faults injected for real: does each land where it must?",
    epilog="Next: assize doctor, assize drill --list.",
)
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option(
    "--list", "only_list", is_flag=True, help="Show the rows and what must come of them; run nothing."
)
@click.option("--parallel", type=click.IntRange(1, 64), help="Tries at once. [default: cores of this host]")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    rows: tuple[str, ...],
    only_list: bool,
    parallel: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make the trouble of every ROW (default: all) on this machine, in throw-away homes, and compare how the
    tries ended with how they must: by the ledger, the signed certificates and the verified bundle.

    The home and the containers of this installation are not touched. Exit 0 when everything came as it must,
    1 when something differs, 3 when a row could not be played here.

    \b
    Examples:
      assize drill --list
      assize drill sandbox-killed relay-killed
    """
    wanted = chosen(rows)
    if only_list:
        _list(wanted, as_json)
        return
    with load_faultline() as line:
        report = drill(
            line,
            wanted,
            parallel=parallel or os.cpu_count() or 1,
            say=(lambda text: None) if quiet or as_json else (lambda text: say(f"  {text}")),
        )
    if as_json:
        emit(SCHEMA, _data(report))
    else:
        _show(report)
    context.exit(exits.REFUSED if report.differs else exits.NOT_IN_FULL if report.not_run else exits.DONE)


def _list(rows: Sequence[Row], as_json: bool) -> None:
    if as_json:
        emit(LIST_SCHEMA, {"rows": [_row_data(row) for row in rows]})
        return
    names = ("row", "injected", "expected", "attempts", "named evidence", "source")
    shown = [
        (
            row.name,
            row.injected,
            _expected(row),
            str(row.attempts),
            ", ".join(row.evidence),
            ", ".join(row.sources),
        )
        for row in rows
    ]
    table(names, shown)
    for row in rows:
        if row.scene is Scene.NOT_HERE:
            click.echo(cell(f"not here: {row.name}: {row.why}"))


def _expected(row: Row) -> str:
    return f"{row.outcome.value} ({row.reason.value}{', suspect' if row.suspect else ''})"


def _row_data(row: Row) -> dict[str, Any]:
    return {
        "row": row.name,
        "injected": row.injected,
        "sources": list(row.sources),
        "scene": row.scene.value,
        "expected": {
            "outcome": row.outcome.value,
            "reason": row.reason.value,
            "suspect": row.suspect,
            "attempts": row.attempts,
            "evidence": list(row.evidence),
        },
        "why_not_here": row.why or None,
    }


def _attempt_data(one: SeenAttempt) -> dict[str, Any]:
    return {
        "outcome": one.outcome.value,
        "reason": one.reason.value,
        "suspect": one.suspect,
        "evidence": dict(one.named),
    }


def _data(report: Report) -> dict[str, Any]:
    return {
        "holds": not report.differs,
        "platform_faults_scored": report.faults_scored,
        "agent_failures_rerun": report.failures_rerun,
        "problems": list(report.problems),
        "rows": [
            {
                **_row_data(one.row),
                "holds": one.holds,
                "not_run": one.not_run or None,
                "problems": list(one.problems),
                "tries": [
                    {
                        "state": seen.state,
                        "scored": seen.scored,
                        "attempts": [_attempt_data(attempt) for attempt in seen.attempts],
                    }
                    for seen in one.tries
                ],
                "notes": dict(one.notes),
            }
            for one in report.verdicts
        ],
    }


def _seen(verdict: Verdict) -> tuple[str, str]:
    """How the first try's attempts ended, and what decided the first one."""
    if verdict.not_run:
        return "not run", verdict.not_run
    if not verdict.tries or not verdict.tries[0].attempts:
        return "refused by the gate" if verdict.holds else "nothing", ""
    attempts = verdict.tries[0].attempts
    ends = ", ".join(one.reason.value for one in attempts)
    return ends, ", ".join(f"{name}={_plain(value)}" for name, value in attempts[0].named.items())


def _plain(value: object) -> str:
    return "not observed" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _show(report: Report) -> None:
    rows = [
        ("-" if one.not_run else "✓" if one.holds else "✗", one.row.name, _expected(one.row), *_seen(one))
        for one in report.verdicts
    ]
    table(("", "row", "expected", "seen, attempt by attempt", "evidence named"), rows)
    for one in report.verdicts:
        for problem in one.problems:
            click.echo(cell(f"✗ {one.row.name}: {problem}"))
    for problem in report.problems:
        click.echo(cell(f"✗ {problem}"))
    played = [one for one in report.verdicts if not one.not_run]
    click.echo(
        f"{sum(one.holds for one in played)} of {len(played)} rows as they must, "
        f"{len(report.verdicts) - len(played)} not run; platform faults scored: {report.faults_scored}, "
        f"agent failures run again: {report.failures_rerun}, left behind or broken: {len(report.problems)}"
    )
