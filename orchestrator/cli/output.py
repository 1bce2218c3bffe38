"""How commands speak: JSON objects with a schema id, plain aligned tables, safe text."""

from __future__ import annotations

import json
import os
import shlex
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from orchestrator.errors import UsageError
from orchestrator.home import Home

DASH: Final = "—"
_UNSAFE: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_KEPT: Final = "\n\t"
HOME_VARIABLE: Final = "ASSIZE_HOME"
_NUSD: Final = 10**9
_F = TypeVar("_F", bound=Callable[..., Any])


def json_option(command: _F) -> _F:
    """`--json`: one object with a schema id on standard output instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")(
        command
    )


def home_of(context: click.Context) -> Home:
    """The home chosen by `--home`, ASSIZE_HOME or the XDG data folder; `UsageError` for a file."""
    home = Home.resolve((context.find_root().obj or {}).get("home"))
    if home.root.exists() and not home.root.is_dir():
        raise UsageError(
            f"the home {home.root} is a file, not a folder", hint="name a folder with --home or ASSIZE_HOME"
        )
    return home


def call_of(context: click.Context) -> str:
    """How this program was called, for commands that are printed to be pasted."""
    import shutil

    program = "assize"
    if shutil.which(program) is None and Path(sys.argv[0]).name == program:
        program = shlex.quote(sys.argv[0])
    # A home from the environment is named too: the line may be pasted into another shell.
    home = (context.find_root().obj or {}).get("home") or os.environ.get(HOME_VARIABLE)
    return f"{program} --home {shlex.quote(str(home))}" if home else program


def say(line: str) -> None:
    """A message for the person, on standard error."""
    click.echo(safe(line), err=True)


def emit(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON object with its schema id."""
    click.echo(_json({"schema": schema, **data}, indent=2))


def emit_line(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON object on one line, for streams."""
    click.echo(_json({"schema": schema, **data}, indent=None))
    sys.stdout.flush()


def _json(data: Mapping[str, Any], *, indent: int | None) -> str:
    """JSON that is safe on a terminal: what `safe` makes visible stands as its JSON escape."""
    text = json.dumps(data, ensure_ascii=False, indent=indent, default=str)
    return "\n".join(
        line if line.isprintable() else "".join(map(_json_char, line)) for line in text.split("\n")
    )


def _json_char(char: str) -> str:
    return json.dumps(char)[1:-1] if unicodedata.category(char) in _UNSAFE else char


def _visible(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escaped(text: str, kept: str) -> str:
    return "".join(
        char if char in kept or unicodedata.category(char) not in _UNSAFE else _visible(char) for char in text
    )


def safe(text: str) -> str:
    """Text of unknown origin for a terminal: control and direction characters become visible.

    Line feeds and tabs stay; `cell` is for text that must stay on its line.
    """
    if text.isprintable():
        return text
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line, _KEPT) for line in lines)


def cell(text: str) -> str:
    """As `safe`, for one cell or one line: line feeds and tabs become visible too."""
    return text if text.isprintable() else _escaped(text, "")


def table_lines(headers: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool = True) -> list[str]:
    """Left-aligned columns, two spaces apart; the last one is not padded."""
    shown = [list(map(cell, row)) for row in rows]
    lines = [list(headers), *shown] if header else shown
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))] if lines else []
    padded = ([text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines)
    return ["  ".join(line).rstrip() for line in padded]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool = True) -> None:
    """Print `table_lines`."""
    for line in table_lines(headers, rows, header=header):
        click.echo(line)


def facts(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Lines of name and text, the texts aligned."""
    width = max((len(name) for name, _ in rows), default=0)
    return [cell(f"{name:<{width}}  {text}").rstrip() for name, text in rows]


def when(unix_ms: int | None) -> str:
    """UTC to the second, a dash for unknown."""
    if unix_ms is None:
        return DASH
    return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(wall_ms: int | None) -> str:
    """Seconds with one decimal, or m:ss from a minute on (UI-5)."""
    if wall_ms is None:
        return DASH
    if wall_ms < 60_000:
        return f"{wall_ms / 1000:.1f}s"
    return f"{wall_ms // 60_000}:{wall_ms // 1000 % 60:02d}"


def dollars(nusd: int | None) -> str:
    """USD with four decimals, halves up (UI-5); a dash for unknown, which is never $0."""
    if nusd is None:
        return DASH
    tenths = (nusd * 10_000 + _NUSD // 2) // _NUSD
    return f"${tenths // 10_000}.{tenths % 10_000:04d}"


def size(number: int | None) -> str:
    """Bytes in the largest fitting unit of 1000."""
    if number is None:
        return DASH
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95 or unit == "GB":
            break
    return f"{value:.1f} {unit}"


def dash(value: object) -> str:
    """A dash for what is missing; never 0."""
    return DASH if value is None or value == "" else str(value)
