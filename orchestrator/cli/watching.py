"""Following rows until all of them are closed: a redrawn table on a terminal, changed rows elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from orchestrator.cli.listing import Column, Row
from orchestrator.cli.output import cell, emit_line


def watch(
    look: Callable[[], Sequence[dict[str, Any]]],
    *,
    columns: Sequence[Column],
    schema: str | None,
    is_open: Callable[[Row], bool],
    redraw: bool,
    wait: Callable[[], None],
) -> None:
    """Call `look` until no row is open; with a `schema` each change is one JSON object on a line."""
    if redraw:
        _redraw(look, columns, is_open, wait)
    else:
        _follow(look, columns, schema, is_open, wait)


def _follow(
    look: Callable[[], Sequence[dict[str, Any]]],
    columns: Sequence[Column],
    schema: str | None,
    is_open: Callable[[Row], bool],
    wait: Callable[[], None],
) -> None:
    before: Sequence[dict[str, Any]] = ()
    while True:
        rows = look()
        if rows != before:
            if schema is not None:
                emit_line(schema, {"screenings": rows})
            for row in rows if schema is None else ():
                if row not in before:
                    click.echo("  ".join(cell(f"{column.name} {column.text(row)}") for column in columns))
            before = rows
        if not any(map(is_open, rows)):
            return
        wait()


def _redraw(
    look: Callable[[], Sequence[dict[str, Any]]],
    columns: Sequence[Column],
    is_open: Callable[[Row], bool],
    wait: Callable[[], None],
) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            rows = look()
            live.update(_drawn(rows, columns), refresh=True)
            if not any(map(is_open, rows)):
                return
            wait()


def _drawn(rows: Sequence[Row], columns: Sequence[Column]) -> Any:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False)
    for column in columns:
        drawn.add_column(column.name, no_wrap=column.name == "id")
    for row in rows:
        drawn.add_row(*(Text(cell(column.text(row))) for column in columns))
    return drawn
