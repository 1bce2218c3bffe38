"""`assize board`: harnesses with their models on the same questions, from what verifies."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.board_text import NOTHING, board_lines, left_out_lines
from orchestrator.cli.output import cell, emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.errors import NotFoundError
from orchestrator.screenings.boards import LedgerBoard, board_of
from orchestrator.screenings.installation import Installation
from scoring.leaderboard import arithmetic
from scoring.leaderboard.board import Board, Leaderboard, Level
from scoring.leaderboard.board_data import as_data

SCHEMA = "assize.board/1"


@click.command(
    "board",
    short_help="Same-question board over all closed screenings that verify.",
    epilog="Next: assize score SCREENING, assize compare A B.",
)
@click.option(
    "--pack", metavar="PACK", shell_complete=completion.packs, help="Only this pack (name or name@version)."
)
@click.option(
    "--page", metavar="NAME", help="overall, PACK or PACK/USE-CASE.  [default: overall; all with --json]"
)
@click.option("--explain", metavar="TASK", help="Print every comparison of TASK and the sums of the page.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    pack: str | None,
    page: str | None,
    explain: str | None,
    as_json: bool,
) -> None:
    """Rank agents with their models by who does better on the same task (Bradley-Terry): overall, by pack,
    and by kind of work.

    Each page is computed alone: scores of two pages do not compare, ranks do. The newest complete screening
    of each agent revision stands, if its bundle verifies. Exit 0 when all of them count in full, 3 when one
    does not or does not verify.

    \b
    Examples:
      assize board
      assize board --pack coding-core --page coding-core/testing
    """
    found = _found(context, pack)
    whole = None if found.leaderboard is None else _page(found.leaderboard, page)
    explained = [] if explain is None or whole is None else _explained(whole, explain)
    if as_json:
        emit(SCHEMA, _data(found, whole if page else None, explained if explain else None))
    else:
        lines = [NOTHING, *left_out_lines(found)] if whole is None else board_lines(found, whole)
        for line in [*lines, "", *explained] if explained else lines:
            click.echo(cell(line))
    context.exit(exits.DONE if found.in_full else exits.NOT_IN_FULL)


def _found(context: click.Context, pack: str | None) -> LedgerBoard:
    """The board of the home; one without a ledger has none, and nothing is created to say so."""
    with reading(context) as read:
        if read.ledger is None:
            return LedgerBoard(None, (), (), 0)
    installation = Installation.open(read.home)
    try:
        return board_of(installation, pack=pack)
    finally:
        installation.close()


def _page(board: Leaderboard, name: str | None) -> Board:
    wanted = name or Level.OVERALL.value
    names = [one.page.name for one in board.pages]
    if wanted not in names:
        raise NotFoundError(f"the board has no page {wanted}", hint=f"its pages: {', '.join(names)}")
    return board.page(wanted)


def _explained(page: Board, name: str) -> list[str]:
    """Every comparison of a task (`PACK/TASK`, or the task alone where only one pack has it)."""
    tasks = [table.task for table in page.tasks]
    fits = [task for task in tasks if task == name] or [task for task in tasks if task.endswith(f"/{name}")]
    if len(fits) != 1:
        what = "no task with a valid result" if not fits else "several tasks"
        raise NotFoundError(
            f"the page {page.page.name} has {what} called {name}",
            hint=f"its tasks: {', '.join((fits or tasks)[:8])}",
        )
    return [*arithmetic.task_lines(page, fits[0]), *arithmetic.lines(page)]


def _data(found: LedgerBoard, page: Board | None, explained: list[str] | None) -> dict[str, Any]:
    board = None if found.leaderboard is None else as_data(found.leaderboard)
    if board is not None and page is not None:
        board["pages"] = [one for one in board["pages"] if one["page"]["name"] == page.page.name]
    reason = None if board is not None else {"code": "no-pack-results", "text": NOTHING}
    data = {
        "board": board,
        "reason": reason,
        "screenings": [
            {
                "screening": one.screening_id,
                "entrant": one.entrant.name,
                "pack": one.pack,
                "verification": {
                    "exit": one.handover.result.exit_code,
                    "reasons": list(one.handover.result.reasons),
                },
            }
            for one in found.standing
        ],
        "left_out": [
            {"screening": one.screening_id, "agent": one.agent, "code": one.why.value, "text": one.text}
            for one in found.left_out
        ],
        "superseded": found.superseded,
    }
    return data if explained is None else {**data, "arithmetic": explained}
