"""`assize tries`: the tries of a screening, filtered, in stable columns."""

from __future__ import annotations

from typing import Any, Final

import click

from orchestrator.cli import completion
from orchestrator.cli.evidence_files import read_manifest
from orchestrator.cli.ledger_listing import Filter, listed_tries, task_ids
from orchestrator.cli.listing import Column, listing_options, show_list, style_of
from orchestrator.cli.output import call_of, duration, when
from orchestrator.cli.reading import reading
from orchestrator.cli.serial import try_data, visibility_of
from orchestrator.errors import NotFoundError
from orchestrator.evidence.claims import differing
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import SlotState
from orchestrator.screenings.claimed import claims_in
from scoring.vocabulary import Outcome, Reason

SCHEMA: Final = "assize.tries/1"
COLUMNS: Final = (
    Column("id", key="try"),
    Column("task"),
    Column("k"),
    Column("state"),
    Column("outcome"),
    Column("reason"),
    Column("attempts"),
    Column("reward"),
    Column("wall", duration, key="wall_ms"),
    Column("phase", default=False),
    Column("rule", default=False),
    Column("checks-passed", key="checks_passed", default=False),
    Column("checks-total", key="checks_total", default=False),
    Column("reruns", default=False),
    Column("interruptions", default=False),
    Column("started", when, key="claimed_ms", default=False),
    Column("ended", when, key="ended_ms", default=False),
    Column("certificate", default=False),
    Column("manifest", default=False),
)


@click.command(
    "tries",
    short_help="The tries of a screening.",
    epilog="Next: assize try TRY. Reward, wall time and phase are those of the newest attempt.",
)
@click.argument("screening", shell_complete=completion.screenings)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeat for more.")
@click.option("--state", type=click.Choice([one.value for one in SlotState]), help="Only this state.")
@click.option("--outcome", type=click.Choice([one.value for one in Outcome]), help="Only this outcome.")
@click.option("--reason", metavar="REASON", help="Only this reason, for example timeout.")
@click.option("--fault", is_flag=True, help="Only tries with a platform fault in any attempt.")
@click.option(
    "--claims-differ",
    is_flag=True,
    help="Only tries whose agent claims other figures than were metered; reads their evidence.",
)
@listing_options(COLUMNS)
@click.pass_context
def command(
    context: click.Context,
    /,
    screening: str,
    tasks: tuple[str, ...],
    style: str,
    claims_differ: bool,
    **wanted: Any,
) -> None:
    """The tries of SCREENING (an id or its unique beginning), by task and index.

    \b
    Examples:
      assize tries 01JAB4 --outcome failed
      assize tries 01JAB4 --columns id,task,k,outcome,reason -o csv
    """
    chosen = style_of(context, style)
    if wanted["reason"] is not None and wanted["reason"] not in set(Reason):
        raise click.BadParameter(
            f"{wanted['reason']!r} is no reason; the reasons are {', '.join(Reason)}", param_hint="'--reason'"
        )
    with reading(context) as found:
        ledger, screening_id = found.find(queries.find_screening, "screening", screening)
        only = _task_ids(ledger, screening_id, tasks) if tasks else None
        visibility = visibility_of(queries.screening(ledger, screening_id))
        rows = [try_data(row) for row in listed_tries(ledger, screening_id, Filter(only, **wanted))]
    if claims_differ:
        rows = [row for row in rows if _claims_differ(found.home, row["manifest"])]
    empty = f"Screening {screening_id} has no such tries. Next: {call_of(context)} tries {screening_id}"
    more = {"screening": screening_id, "visibility": visibility}
    show_list(chosen, rows, schema=SCHEMA, key="tries", empty=empty, more=more)


def _task_ids(ledger: Ledger, screening_id: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Whole ids, last parts of ids or unique beginnings; raises `NotFoundError`."""
    known = task_ids(ledger, screening_id)
    chosen: list[str] = []
    for name in names:
        exact = [one for one in known if name in (one, one.rpartition("/")[2])]
        fitting = exact or [one for one in known if one.startswith(name)]
        if len(fitting) != 1:
            what = "several tasks" if fitting else "no task"
            raise NotFoundError(
                f"screening {screening_id} has {what} called {name}",
                hint=f"its tasks: {', '.join((fitting or known)[:8])}",
            )
        chosen += fitting
    return tuple(chosen)


def _claims_differ(home: Home, manifest: str | None) -> bool:
    """Whether the agent's own figures are others than the record's; evidence that is gone says nothing."""
    found = read_manifest(home, manifest)
    said = claims_in(found.store, found.files)
    return said is not None and bool(differing(*said))
