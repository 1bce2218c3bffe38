"""`assize images`: which image Id stands behind every name, and building those of a pack."""

from __future__ import annotations

from typing import Any, Final

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.listing import Column, listing_options, show_list, style_of
from orchestrator.cli.output import cell, emit, home_of, json_option, say, size, table
from orchestrator.errors import HostError
from orchestrator.home import Home
from orchestrator.packs import catalog
from orchestrator.screenings.images import TaskImages, open_store, prepare_images
from orchestrator.screenings.launch import chosen_tasks
from sandbox_images.lock import ImageLock
from sandbox_images.prepare import list_images

LIST_SCHEMA: Final = "assize.images-list/1"
BUILD_SCHEMA: Final = "assize.images-build/1"
_DIGITS: Final = 19


def _present(value: bool | None) -> str:
    return {True: "yes", False: "NO", None: "unknown"}[value]


COLUMNS: Final = (
    Column("name"),
    Column("id", lambda value: str(value)[:_DIGITS]),
    Column("source"),
    Column("present", _present),
    Column("size", size, key="size_bytes"),
    Column("created", lambda value: str(value)[:19] or "—"),
    Column("detail"),
)


@click.group(
    "images",
    short_help="Images of the sandboxes and the Ids they are pinned by.",
    epilog="Next: assize images list.",
)
def command() -> None:
    """Images of the sandboxes: every name is locked to one Id, and containers are created by Id.

    \b
    Examples:
      assize images list
      assize images build coding-core
    """


@command.command("list", short_help="Every image of the lock.", epilog="Next: assize images build PACK.")
@listing_options(COLUMNS)
@click.pass_context
def list_(context: click.Context, style: str) -> None:
    """Every image in the lock of this home, by name; `present` says whether the engine still has it.

    \b
    Examples:
      assize images list
      assize images list --columns name,id -o json
    """
    rows = _rows(home_of(context))
    empty = "No images yet. Next: assize images build coding-core"
    show_list(style_of(context, style), rows, schema=LIST_SCHEMA, key="images", empty=empty)


def _rows(home: Home) -> list[dict[str, Any]]:
    try:
        store = open_store(home, say)
    except HostError as error:
        say(f"warning: {error.message}; what the engine holds is unknown")
        entries = sorted(ImageLock(home.images_lock).entries().items())
        unknown = {"present": None, "size_bytes": None}
        return [
            {"name": name, **{key: getattr(entry, key) for key in _LOCKED}, **unknown}
            for name, entry in entries
        ]
    try:
        found = list_images(store)
    finally:
        store.client.close()
    return [
        {
            "name": one.name,
            **{key: getattr(one, key) for key in _LOCKED},
            "present": one.present,
            "size_bytes": one.size_bytes if one.present else None,
        }
        for one in found
    ]


_LOCKED: Final = ("id", "source", "created", "detail")


@command.command("build", epilog="Next: assize packs check PACK, assize screen PACK --agent AGENT.")
@click.argument("pack", shell_complete=completion.packs)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeat for more.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
@click.pass_context
def build(context: click.Context, pack: str, tasks: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """Make every image that PACK needs ready, and print the Ids that its tries will be pinned to.

    Images that are there are reused. Exit 3 when a task is refused and has no images for that reason.

    \b
    Examples:
      assize images build coding-core
      assize images build ./my-tasks --task fix-login
    """
    home = home_of(context)
    found = catalog.resolve(home, pack).load()
    wanted = chosen_tasks(found, tasks)
    refused = {task.id: [one.message for one in found.refusals(task)] for task in wanted}
    runnable = [task for task in wanted if not refused[task.id]]
    images: dict[str, TaskImages] = {}
    if runnable:
        images = prepare_images(
            found, runnable, home, (lambda line: None) if quiet else (lambda line: say(f"  {line}"))
        )
    rows = [_task_row(task.id, images.get(task.id), refused[task.id]) for task in wanted]
    if as_json:
        emit(BUILD_SCHEMA, {"pack": found.label, "pack_digest": found.digest, "tasks": rows})
    else:
        _show(rows)
    context.exit(exits.NOT_IN_FULL if len(runnable) < len(wanted) else exits.DONE)


def _task_row(task_id: str, images: TaskImages | None, refused: list[str]) -> dict[str, Any]:
    return {
        "task": task_id,
        "agent_image": None if images is None else images.agent,
        "grader_image": None if images is None else images.grader,
        "service_images": {} if images is None else dict(images.sidecars),
        "deviations": [] if images is None else [one.message for one in images.deviations],
        "refused": refused,
    }


def _show(rows: list[dict[str, Any]]) -> None:
    def short(identifier: str | None) -> str:
        return "—" if identifier is None else identifier[:_DIGITS]

    table(
        ("task", "agent image", "grader image"),
        [(row["task"], short(row["agent_image"]), short(row["grader_image"])) for row in rows],
    )
    told: set[str] = set()
    for row in rows:
        for text in row["deviations"]:
            if text not in told:
                told.add(text)
                click.echo(cell(f"deviation: {text}"))
        for text in row["refused"]:
            click.echo(cell(f"refused: {row['task']}: {text}"))
