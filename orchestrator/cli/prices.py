"""`assize prices`: the price sheet that calls are priced by."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import click

from orchestrator.cli import exits, price_rows
from orchestrator.cli.listing import listing_options, show_list, style_of
from orchestrator.cli.output import cell, emit, facts, json_option, say, table
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.prices.compare import Difference, differences
from orchestrator.prices.errors import PriceError
from orchestrator.prices.importer import SourceMissingError, import_sheet, reimported
from orchestrator.prices.sheet import PriceSheet

SHOW_SCHEMA: Final = "assize.prices-show/1"
CHECK_SCHEMA: Final = "assize.prices-check/1"
IMPORT_SCHEMA: Final = "assize.prices-import/1"
_DATE: Final = click.DateTime(["%Y-%m-%d"])
_SHEET: Final = click.option(
    "--sheet", type=click.Path(path_type=Path), metavar="FILE", help="Another sheet than the bundled one."
)


@click.group(
    "prices",
    short_help="Dated list prices of models: show, check, import.",
    epilog="Next: assize prices show MODEL.",
)
def command() -> None:
    """The price sheet that calls are priced by: exact model ids, dated, pinned by one digest.

    \b
    Examples:
      assize prices show
      assize prices check
    """


@command.command("show", short_help="Prices by model.", epilog="Next: assize prices check.")
@click.argument("model", required=False)
@click.option("--provider", metavar="P", help="Only this provider.")
@click.option("--on", "day", type=_DATE, metavar="DATE", help="Only prices that hold on this UTC day.")
@_SHEET
@listing_options(price_rows.COLUMNS)
@click.pass_context
def show(
    context: click.Context,
    model: str | None,
    provider: str | None,
    day: datetime | None,
    sheet: Path | None,
    style: str,
) -> None:
    """Prices in USD per million tokens. MODEL is an exact id; all its tiers and times of day are shown.

    \b
    Examples:
      assize prices show --provider anthropic --on 2026-11-30
      assize prices show gpt-5.6-sol -o json
    """
    found = _sheet(sheet)
    on = None if day is None else day.date()
    entries = [
        entry
        for entry in found.entries
        if (model is None or model in entry.ids)
        and (provider is None or entry.provider == provider)
        and (on is None or entry.valid_on(on))
    ]
    if not entries:
        asked = " ".join(text for text in (provider, model, None if on is None else f"on {on}") if text)
        raise NotFoundError(
            f"price sheet {found.id} has nothing for {asked}",
            hint="assize prices show lists every price; ids are matched exactly",
        )
    rows = [row for entry in entries for row in price_rows.rows_of(entry, every=model is not None)]
    more = {"sheet": found.id, "date": found.date.isoformat(), "digest": found.digest}
    show_list(style_of(context, style), rows, schema=SHOW_SCHEMA, key="prices", empty="No prices.", more=more)


@command.command(
    "check", short_help="Is a sheet valid, and what the source says now.", epilog="Next: assize prices show."
)
@_SHEET
@json_option
@click.pass_context
def check(context: click.Context, sheet: Path | None, as_json: bool) -> None:
    """Validate a sheet, print its digest, and compare it with genai-prices where that is installed.

    Exit 0 when the sheet is valid and no entry differs, 1 otherwise. Models that only the source has
    are counted and no reason to refuse.

    \b
    Examples:
      assize prices check
      assize prices check --sheet prices.json --json
    """
    try:
        found = _sheet(sheet)
    except PriceError as error:
        _refuse(error, as_json=as_json)
        context.exit(exits.REFUSED)
    compared = _against_source(found)
    wrong = [one for one in compared or () if one.kind != "new"]
    data = {
        **_summary(found),
        "valid": True,
        "problems": [],
        "compared": compared is not None,
        "only_in_source": sum(one.kind == "new" for one in compared or ()),
        "differences": [price_rows.difference(one) for one in wrong],
    }
    if as_json:
        emit(CHECK_SCHEMA, data)
    else:
        _show_check(data)
    context.exit(exits.REFUSED if wrong else exits.DONE)


@command.command("import", epilog="Next: assize prices check --sheet FILE.")
@click.option("--on", "day", type=_DATE, metavar="DATE", help="Date of the sheet. [default: today, UTC]")
@click.option("--providers", metavar="A,B", help="Only these. [default: the main providers]")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The file to write."
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@json_option
def import_(day: datetime | None, providers: str | None, out: Path, force: bool, as_json: bool) -> None:
    """Make a new sheet from the data inside the installed genai-prices package; nothing is fetched.

    Prints what was left out, and what changed against the bundled sheet. New and changed entries are
    unreviewed.

    \b
    Examples:
      assize prices import --out prices.json
      assize prices import --providers openai,anthropic --on 2026-11-30 --out prices.json
    """
    if out.exists() and not force:
        raise UsageError(f"{out} exists; nothing was written", hint="--force writes over it")
    names = None if providers is None else _names(providers)
    bundled = PriceSheet.bundled()
    made = import_sheet(_today() if day is None else day.date(), providers=names, previous=bundled)
    changed = differences(bundled, made.sheet)
    out.write_text(made.sheet.text(), encoding="utf-8")
    data = {
        **_summary(made.sheet),
        "file": str(out),
        "skipped": [price_rows.skipped(one) for one in made.skipped],
        "differences": [price_rows.difference(one) for one in changed],
    }
    if as_json:
        emit(IMPORT_SCHEMA, data)
        return
    _table("left out", price_rows.SKIPPED_HEADERS, data["skipped"])
    _table(f"against the bundled sheet {bundled.id}", price_rows.DIFFERENCE_HEADERS, data["differences"])
    for line in facts([("wrote", str(out)), *price_rows.summary(data)]):
        click.echo(line)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("no provider is named", param_hint="'--providers'")
    return names


def _today() -> date:
    return datetime.now(UTC).date()


def _sheet(path: Path | None) -> PriceSheet:
    if path is None:
        return PriceSheet.bundled()
    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint="give the path of a sheet's .json file")
    return PriceSheet.load(path)


def _against_source(sheet: PriceSheet) -> tuple[Difference, ...] | None:
    """Where the source now differs from the sheet; None without the source."""
    try:
        return differences(sheet, reimported(sheet).sheet)
    except SourceMissingError:
        return None


def _summary(sheet: PriceSheet) -> dict[str, Any]:
    return {
        "sheet": sheet.id,
        "date": sheet.date.isoformat(),
        "digest": sheet.digest,
        "entries": len(sheet.entries),
        "reviewed": sum(entry.reviewed for entry in sheet.entries),
    }


def _refuse(error: PriceError, *, as_json: bool) -> None:
    if as_json:
        emit(CHECK_SCHEMA, {"valid": False, "problems": list(error.problems)})
    else:
        say(f"invalid: {error.message}")


def _show_check(data: dict[str, Any]) -> None:
    _table("differs from genai-prices", price_rows.DIFFERENCE_HEADERS, data["differences"])
    source = "not installed, not compared"
    if data["compared"]:
        source = f"{len(data['differences'])} entries differ; {data['only_in_source']} only in the source"
    for line in facts([*price_rows.summary(data), ("genai-prices", source)]):
        click.echo(line)


def _table(title: str, headers: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    if rows:
        click.echo(cell(f"{title}:"))
        table(headers, [[str(row[header]) for header in headers] for row in rows])
        click.echo("")
