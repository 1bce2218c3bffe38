"""Following rows until all of them are closed: a redrawn picture on a terminal, changed rows elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import click

from orchestrator.cli.listing import Column, Row
from orchestrator.cli.output import cell, emit_line


def wants_live(stream: TextIO) -> bool:
    """A picture that is redrawn needs a terminal that is not dumb, and no CI (CLI-1)."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def watch(
    look: Callable[[], Sequence[dict[str, Any]]],
    *,
    columns: Sequence[Column],
    schema: str | None,
    is_open: Callable[[Row], bool],
    draw: Callable[[Sequence[Row]], Sequence[str]] | None,
    wait: Callable[[], None],
) -> None:
    """Call `look` until no row is open. `draw` makes the lines of a picture that is redrawn in place.

    Without it each changed row is one line, and with a `schema` each change is one JSON object on a line.
    """
    if draw is not None:
        _redraw(look, draw, is_open, wait)
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
    draw: Callable[[Sequence[Row]], Sequence[str]],
    is_open: Callable[[Row], bool],
    wait: Callable[[], None],
) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            rows = look()
            # A line that does not fit is cut at the edge: wrapped lines would jump on every redraw.
            live.update(Text("\n".join(draw(rows)), no_wrap=True, overflow="ellipsis"), refresh=True)
            if not any(map(is_open, rows)):
                return
            wait()
