"""How commands speak: JSON objects with a schema id, plain aligned tables, safe text."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from orchestrator.home import Home

_UNSAFE = ("Cc", "Cf", "Cs", "Co")
_F = TypeVar("_F", bound=Callable[..., Any])


def json_option(command: _F) -> _F:
    """`--json`: one object with a schema id on standard output instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")(
        command
    )


def home_of(context: click.Context) -> Home:
    """The home chosen by `--home`, ASSIZE_HOME or the XDG data folder."""
    return Home.resolve((context.find_root().obj or {}).get("home"))


def say(line: str) -> None:
    """A message for the person, on standard error."""
    click.echo(line, err=True)


def emit(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON object with its schema id."""
    click.echo(json.dumps({"schema": schema, **data}, ensure_ascii=False, indent=2, default=str))


def emit_line(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON object on one line, for streams."""
    click.echo(json.dumps({"schema": schema, **data}, ensure_ascii=False, default=str))
    sys.stdout.flush()


def safe(text: str) -> str:
    """Text of unknown origin for a terminal: control and direction characters become visible."""
    return "".join(
        char
        if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")
        else f"\\x{ord(char):02x}"
        for char in text
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool = True) -> None:
    """Left-aligned columns, two spaces apart; the last one is not padded."""
    shown = [list(map(safe, row)) for row in rows]
    lines = [list(headers), *shown] if header else shown
    if not lines:
        return
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


def when(unix_ms: int | None) -> str:
    """UTC to the second, a dash for unknown."""
    if unix_ms is None:
        return "—"
    return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(wall_ms: int | None) -> str:
    """Seconds with one decimal, or m:ss from a minute on (UI-5)."""
    if wall_ms is None:
        return "—"
    if wall_ms < 60_000:
        return f"{wall_ms / 1000:.1f}s"
    return f"{wall_ms // 60_000}:{wall_ms // 1000 % 60:02d}"


def dash(value: object) -> str:
    """A dash for what is missing; never 0."""
    return "—" if value is None else str(value)
