"""`assize status`: all screenings, or one in detail; `--watch` follows until they are closed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from orchestrator.cli import completion
from orchestrator.cli.listing import Column, Row, Style, listing_options, show_list, style_of
from orchestrator.cli.output import call_of, dollars, emit, table_lines, when
from orchestrator.cli.reading import Reading, reading
from orchestrator.cli.serial import screening_data
from orchestrator.cli.status_details import detail_lines, details
from orchestrator.cli.watching import wants_live, watch
from orchestrator.cli.worker import worker_rows
from orchestrator.errors import UsageError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import OPEN_SCREENINGS

LIST_SCHEMA: Final = "assize.status-list/1"
SCHEMA: Final = "assize.status/1"
EMPTY: Final = "No screenings yet. Next: assize screen coding-core --agent oracle --agent nop"


def _money(nusd: str | None) -> str:
    return dollars(None if nusd is None else int(nusd))


COLUMNS: Final = (
    Column("id", key="screening"),
    Column("agent"),
    Column("pack"),
    Column("state"),
    Column("visibility"),
    Column("recorded"),
    Column("planned"),
    Column("passed"),
    Column("failed"),
    Column("uncountable"),
    Column("open"),
    Column("reruns"),
    Column("spend", _money, key="spend_nusd"),
    Column("cancelled", default=False),
    Column("interruptions", default=False),
    Column("platform-spend", _money, key="platform_spend_nusd", default=False),
    Column("created", when, key="created_ms", default=False),
    Column("closed", when, key="closed_ms", default=False),
)


@click.command(
    "status",
    short_help="Where screenings stand.",
    epilog="Next: assize tries SCREENING, assize score SCREENING.",
)
@click.argument("screening", required=False, shell_complete=completion.screenings)
@click.option("--watch", "follow", is_flag=True, help="Show it again whenever it changes, until closed.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@listing_options(COLUMNS)
@click.pass_context
def command(context: click.Context, screening: str | None, follow: bool, interval: float, style: str) -> None:
    """All screenings, newest first, or one SCREENING (an id or its unique beginning) in detail.

    \b
    Examples:
      assize status
      assize status 01JAB4 --watch
    """
    chosen = style_of(context, style)
    if screening is not None and chosen.format not in ("table", "json"):
        raise UsageError(f"-o {chosen.format} is for the list; one screening is text or json")
    with reading(context) as found:
        if follow:
            _watch(found, screening, chosen, interval, call_of(context))
        elif screening is None:
            rows = _rows(found)
            show_list(chosen, rows, schema=LIST_SCHEMA, key="screenings", empty=EMPTY)
        else:
            _one(found, screening, chosen, call_of(context))


def _rows(found: Reading) -> list[dict[str, Any]]:
    ledger = found.ledger
    if ledger is None:
        return []
    return [screening_data(row, queries.status(ledger, row["id"])) for row in queries.screenings(ledger)]


def _one(found: Reading, prefix: str, style: Style, call: str) -> None:
    ledger, screening_id = found.find(queries.find_screening, "screening", prefix)
    data = details(found.home, ledger, screening_id)
    if style.format == "json":
        emit(SCHEMA, data)
        return
    for line in detail_lines(data, call):
        click.echo(line)


def host_lines(ledger: Ledger | None) -> list[str]:
    """Who works on campaigns of many hosts, below the screenings; nothing where nobody does."""
    rows = [] if ledger is None else worker_rows(ledger)
    if not rows:
        return []
    shown = [
        [
            one["host_name"],
            one["role"],
            one["state"],
            f"{one['running']}/{one['slots']}",
            when(one["beaten_ms"]),
        ]
        for one in rows
    ]
    return ["", *table_lines(("host", "role", "state", "running", "beaten"), shown)]


def _watch(found: Reading, prefix: str | None, style: Style, interval: float, call: str) -> None:
    if style.format not in ("table", "json"):
        raise UsageError(f"--watch cannot be written as {style.format}", hint="leave -o away, or -o json")
    if prefix is None and not _rows(found):
        click.echo(EMPTY)
        return
    ledger, one = None, None
    if prefix is not None:
        ledger, one = found.find(queries.find_screening, "screening", prefix)

    def look() -> list[dict[str, Any]]:
        return [row for row in _rows(found) if one in (None, row["screening"])]

    def draw(rows: Sequence[Row]) -> list[str]:
        if ledger is not None and one is not None:
            return detail_lines(details(found.home, ledger, one), call) + host_lines(ledger)
        names = [column.name for column in style.columns]
        lines = table_lines(names, [[column.text(row) for column in style.columns] for row in rows])
        return lines + host_lines(found.ledger)

    watch(
        look,
        columns=style.columns,
        schema=LIST_SCHEMA if style.format == "json" else None,
        is_open=lambda row: row["state"] in OPEN_SCREENINGS,
        draw=draw if style.format == "table" and wants_live(sys.stdout) else None,
        wait=lambda: time.sleep(interval),
    )
