"""`assize score`: the Pack Score card of a screening, from what verifies."""

from __future__ import annotations

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.cards import card_data, card_lines
from orchestrator.cli.output import cell, emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.ledger import queries
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.scorecard import score_screening
from scoring.explain import lines


@click.command(
    "score",
    short_help="Pack Score card of a screening, from what verifies.",
    epilog="Next: assize verify FILE.",
)
@click.argument("screening", shell_complete=completion.screenings)
@click.option("--explain", is_flag=True, help="Print the arithmetic of every figure.")
@json_option
@click.pass_context
def command(context: click.Context, screening: str, explain: bool, as_json: bool) -> None:
    """Verify the certificates of SCREENING (an id or its unique beginning) and score what verifies.

    Exit 0 when it counts in full, 3 when it does not.

    \b
    Examples:
      assize score 01JAB4
      assize score 01JAB4 --explain
    """
    with reading(context) as found:
        # Looked up first, so that a wrong id creates no home.
        _, screening_id = found.find(queries.find_screening, "screening", screening)
    installation = Installation.open(found.home)
    try:
        row = queries.screening(installation.ledger, screening_id)
        scored = score_screening(installation, screening_id)
    finally:
        installation.close()
    if as_json:
        arithmetic = {"arithmetic": list(lines(scored.card))} if explain else {}
        emit("assize.score/1", {"screening": screening_id, **card_data(scored), **arithmetic})
    else:
        for line in card_lines(scored, row["agent_version"]):
            click.echo(cell(line))
        if explain:
            click.echo()
            for line in lines(scored.card):
                click.echo(cell(line))
    in_full = not scored.card.labels.partial_screen and scored.handover.result.exit_code == 0
    context.exit(exits.DONE if in_full else exits.NOT_IN_FULL)
