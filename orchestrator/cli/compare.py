"""`assize compare`: two screenings task by task, from what verifies."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.comparison_text import comparison_lines
from orchestrator.cli.output import cell, emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.ledger import queries
from orchestrator.screenings.comparing import METHODS, ComparedScreening, compare_screenings
from orchestrator.screenings.installation import Installation


@click.command(
    "compare",
    short_help="Two screenings task by task: can they be told apart?",
    epilog="Next: assize score SCREENING --explain.",
)
@click.argument("a", metavar="A", shell_complete=completion.screenings)
@click.argument("b", metavar="B", shell_complete=completion.screenings)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="Methodology whose counts are compared.",
)
@click.option("--explain", is_flag=True, help="Print the arithmetic of every figure.")
@json_option
@click.pass_context
def command(context: click.Context, a: str, b: str, method: str, explain: bool, as_json: bool) -> None:
    """Compare screening A with screening B (ids or their unique beginnings): the counts of every task, an
    exact paired test, and how large a difference must be to mean anything.

    Only screenings of the same suite version under the same conditions are compared; else the reasons are
    printed and nothing is concluded. Exit 0 when compared in full, 3 when not comparable or when a
    screening does not verify in full.

    \b
    Examples:
      assize compare 01JAB4 01JAC7
      assize compare 01JAB4 01JAC7 --json
    """
    with reading(context) as found:
        # Looked up first, so that a wrong id creates no home.
        ids = [found.find(queries.find_screening, "screening", one)[1] for one in (a, b)]
    installation = Installation.open(found.home)
    try:
        compared = compare_screenings(installation, ids[0], ids[1], method)
    finally:
        installation.close()
    made = compared.comparison
    if as_json:
        data = made.as_data()
        if not explain:
            del data["arithmetic"]
        sides = {"a": _side_data(compared.a), "b": _side_data(compared.b)}
        emit("assize.compare/1", {"screenings": sides, "comparison": data})
    else:
        for line in comparison_lines(compared):
            click.echo(line)
        if explain:
            click.echo()
            for line in made.arithmetic:
                click.echo(cell(line))
    in_full = made.comparable and compared.a.holds and compared.b.holds
    context.exit(exits.DONE if in_full else exits.NOT_IN_FULL)


def _side_data(one: ComparedScreening) -> dict[str, Any]:
    result = one.scored.handover.result
    return {
        "screening": one.screening_id,
        "agent": one.agent,
        "agent_digest": one.scored.card.key.agent_digest,
        "pack": f"{one.scored.card.key.pack_id}@{one.scored.card.key.pack_version}",
        "closed": one.scored.closed,
        "start_hours": {f"{hour:02d}": count for hour, count in one.hours.items()},
        "verification": {"exit": result.exit_code, "reasons": list(result.reasons)},
    }
