"""Lists of rows: stable columns, `--columns`, `--no-header`, `-o table|csv|json|md` (CLI-2, CLI-3)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from orchestrator.cli.output import cell, dash, emit, table

_MARKDOWN: Final = re.compile(r"[\\`*_\[\]<>|~]")
FORMATS: Final = ("table", "csv", "json", "md")
Row = Mapping[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Column:
    """One column: `key` in the row's data (default: the name), `show` its text for a person.

    A column that is not `default` is shown only when `--columns` names it.
    """

    name: str
    show: Callable[[Any], str] = dash
    key: str = ""
    default: bool = True

    def value(self, row: Row) -> Any:
        """The datum, as in `--json`."""
        return row[self.key or self.name]

    def text(self, row: Row) -> str:
        """The datum for a person."""
        return self.show(self.value(row))


@dataclass(frozen=True)
class Style:
    """How the list is wanted."""

    columns: tuple[Column, ...]
    header: bool
    format: str


def _chosen(known: Sequence[Column], text: str | None) -> tuple[Column, ...]:
    if text is None:
        return tuple(column for column in known if column.default)
    by_name = {column.name: column for column in known}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in by_name]
    if unknown or not names:
        what = f"there is no column {unknown[0]!r}" if unknown else "no column is named"
        raise click.BadParameter(f"{what}; the columns are {', '.join(by_name)}", param_hint="'--columns'")
    return tuple(by_name[name] for name in names)


def listing_options(known: Sequence[Column]) -> Callable[[_F], _F]:
    """The four options of a list; the command gets them as one keyword `style`."""
    names = ", ".join(column.name for column in known)

    def decorate(command: _F) -> _F:
        def columns(context: click.Context, _option: click.Parameter, text: str | None) -> None:
            context.meta["columns"] = _chosen(known, text)

        def no_header(context: click.Context, _option: click.Parameter, given: bool) -> None:
            context.meta["header"] = not given

        def as_json(context: click.Context, _option: click.Parameter, given: bool) -> None:
            context.meta["as_json"] = given

        options = (
            click.option(
                "--columns",
                metavar="A,B",
                expose_value=False,
                callback=columns,
                help=f"Which columns, in this order: {names}.",
            ),
            click.option(
                "--no-header", is_flag=True, expose_value=False, callback=no_header, help="Rows only."
            ),
            click.option(
                "-o",
                "--output",
                "style",
                type=click.Choice(FORMATS),
                default="table",
                show_default=True,
                help="How to print the list.",
            ),
            click.option(
                "--json", is_flag=True, expose_value=False, callback=as_json, help="The same as -o json."
            ),
        )
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def style_of(context: click.Context, output: str) -> Style:
    """The options of a list, put together."""
    meta = context.meta
    return Style(meta["columns"], meta["header"], "json" if meta["as_json"] else output)


def show_list(
    style: Style, rows: Sequence[Row], *, schema: str, key: str, empty: str, more: Row | None = None
) -> None:
    """Print `rows`; `empty` is the sentence of an empty table, `key` the name of the array in JSON."""
    if style.format == "json":
        emit(schema, {**(more or {}), key: list(rows)})
    elif style.format == "csv":
        click.echo(_csv(style, rows), nl=False)
    elif style.format == "md":
        for line in _markdown(style, rows):
            click.echo(line)
    elif not rows:
        click.echo(empty)
    else:
        names = [column.name for column in style.columns]
        table(names, [[column.text(row) for column in style.columns] for row in rows], header=style.header)


def _csv(style: Style, rows: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if style.header:
        # The names of the JSON members: they carry the units that raw values need.
        writer.writerow([column.key or column.name for column in style.columns])
    for row in rows:
        writer.writerow([_plain(column.value(row)) for column in style.columns])
    return out.getvalue()


def _plain(value: Any) -> str:
    """Raw values for programs: nothing for what is missing, lists joined by spaces."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return cell(" ".join(map(str, value)))
    return cell(str(value))


def _markdown(style: Style, rows: Sequence[Row]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_MARKDOWN.sub(_escaped, cell(text)) for text in cells)} |"

    head = [line([column.name for column in style.columns]), "|" + " --- |" * len(style.columns)]
    return (head if style.header else []) + [line([c.text(row) for c in style.columns]) for row in rows]


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
