"""`assize packs`: what can be screened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from orchestrator.cli import completion
from orchestrator.cli.lazy import LazyGroup
from orchestrator.cli.listing import Column, listing_options, show_list, style_of
from orchestrator.cli.output import DASH, call_of, cell, emit, home_of, json_option
from orchestrator.cli.pack_details import detail_lines, details
from orchestrator.packs import catalog
from orchestrator.packs.catalog import PackRef
from orchestrator.packs.errors import PackError
from orchestrator.packs.freeze import freeze as freeze_pack
from orchestrator.packs.freeze import load_manifest
from orchestrator.packs.pack import load_pack

LIST_SCHEMA: Final = "assize.packs-list/1"
SHOW_SCHEMA: Final = "assize.packs-show/1"
FREEZE_SCHEMA: Final = "assize.packs-freeze/1"
COLUMNS: Final = (
    Column("name"),
    Column("version"),
    Column("state"),
    Column("tasks"),
    Column("tries"),
    Column("title"),
    Column("origin"),
    Column("problem", lambda text: DASH if text is None else " ".join(text.split())),
    Column("path", default=False),
)


@click.command(
    "packs",
    cls=LazyGroup,
    members={
        "check": (
            "orchestrator.cli.packs_check",
            "Run the admission gate: oracle 3 of 3, nop fails, grading stable.",
        )
    },
    short_help="Benchmark packs: list, show, check, freeze.",
    epilog="Next: assize packs list.",
)
def command() -> None:
    """Benchmark packs: named, versioned sets of tasks with a grader, pinned by digest.

    \b
    Examples:
      assize packs list
      assize packs show coding-core
    """


@command.command("list", short_help="Every pack that is known.", epilog="Next: assize packs show PACK.")
@listing_options(COLUMNS)
@click.pass_context
def list_(context: click.Context, style: str) -> None:
    """Bundled packs, then those of the home, by name and version; broken ones with their problem.

    \b
    Examples:
      assize packs list
      assize packs list --columns name,version,path -o csv
    """
    rows = [_row(ref) for ref in catalog.list_packs(home_of(context))]
    show_list(style_of(context, style), rows, schema=LIST_SCHEMA, key="packs", empty="No packs are known.")


def _row(ref: PackRef) -> dict[str, Any]:
    tasks, tries = None, None
    problem = ref.problem
    if problem is None and ref.version:
        try:
            manifest = load_manifest(ref.path)
            tasks, tries = len(manifest.tasks), len(manifest.tasks) * manifest.tries_per_task
        except PackError as error:
            problem = error.message
    return {
        "name": ref.name,
        "version": ref.version or None,
        "state": ref.state or None,
        "tasks": tasks,
        "tries": tries,
        "title": ref.title or None,
        "origin": ref.origin,
        "problem": problem,
        "path": str(ref.path),
    }


@command.command(
    "show", short_help="One pack, verified file by file.", epilog="Next: assize packs check PACK."
)
@click.argument("pack", shell_complete=completion.packs)
@json_option
@click.pass_context
def show(context: click.Context, pack: str, as_json: bool) -> None:
    """Verify PACK (a name, name@version or a folder) file by file and show what is in it.

    Tasks that cannot be run faithfully are named with the reason, and so is everything in which a run
    differs from what a task states.

    \b
    Examples:
      assize packs show coding-core
      assize packs show ./my-tasks --json
    """
    data = details(catalog.resolve(home_of(context), pack).load())
    if as_json:
        emit(SHOW_SCHEMA, data)
        return
    for line in detail_lines(data, call_of(context)):
        click.echo(line)


@command.command(
    "freeze", short_help="Pin the files of your own pack.", epilog="Next: assize packs check DIR."
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def freeze(context: click.Context, folder: Path, as_json: bool) -> None:
    """Write pack.lock.json of the pack in DIR, a folder with a pack.toml, and print the pack's digest.

    Files may change under the same version only while the pack's state is "draft".

    \b
    Examples:
      assize packs freeze ./my-pack
      assize packs freeze ./my-pack --json
    """
    if not folder.is_dir():
        raise PackError(f"there is no folder {folder}", hint="give the folder that holds pack.toml")
    freeze_pack(folder)
    pack = load_pack(folder)
    data = {
        "pack": pack.label,
        "digest": pack.digest,
        "state": pack.manifest.state,
        "tasks": len(pack.tasks),
        "files": len(pack.lock.files),
    }
    if as_json:
        emit(FREEZE_SCHEMA, data)
        return
    click.echo(f"{data['pack']} ({data['state']})  {data['digest']}")
    click.echo(f"{data['tasks']} tasks, {data['files']} files pinned")
    click.echo(cell(f"next: {call_of(context)} packs check {folder}"))
