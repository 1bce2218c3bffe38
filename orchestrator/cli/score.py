"""`assize score`: the Pack Score card of a screening, or its figures under another methodology."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli import completion, exits
from orchestrator.cli.cards import card_data, card_lines, verification_data
from orchestrator.cli.method_text import arithmetic_lines, method_data, method_lines
from orchestrator.cli.output import cell, emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.ledger import queries
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.methods import METHODS, result_of
from orchestrator.screenings.scorecard import Scored, score_screening
from scoring.explain import lines
from scoring.pack_card import METHODOLOGY as PACK_SCORE

SCHEMA = "assize.score/1"


@click.command(
    "score",
    short_help="Pack Score card of a screening, from what verifies.",
    epilog="Next: assize verify FILE, assize board, assize compare A B.",
)
@click.argument("screening", shell_complete=completion.screenings)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=PACK_SCORE,
    show_default=True,
    help="Methodology of the figures; they are never blended.",
)
@click.option("--explain", is_flag=True, help="Print the arithmetic of every figure.")
@json_option
@click.pass_context
def command(context: click.Context, screening: str, method: str, explain: bool, as_json: bool) -> None:
    """Verify the certificates of SCREENING (an id or its unique beginning) and score what verifies.

    A methodology whose population rule leaves pack runs out says so after a dash. Exit 0 when the screening
    counts in full, 3 when it does not, under every methodology.

    \b
    Examples:
      assize score 01JAB4 --explain
      assize score 01JAB4 --method rate-ai-agent/1
    """
    with reading(context) as found:
        # Looked up first, so that a wrong id creates no home.
        _, screening_id = found.find(queries.find_screening, "screening", screening)
    installation = Installation.open(found.home)
    try:
        row = queries.screening(installation.ledger, screening_id)
        scored = score_screening(installation, screening_id, with_floor=method == PACK_SCORE)
    finally:
        installation.close()
    if method == PACK_SCORE:
        data, text, arithmetic = _card(scored, row["agent_version"], explain=explain)
    else:
        data, text, arithmetic = _other(scored, method, explain=explain)
    if as_json:
        emit(SCHEMA, {"screening": screening_id, "method": method, **data})
    else:
        for line in [*text, "", *arithmetic] if explain and arithmetic else text:
            click.echo(cell(line))
    in_full = not scored.card.labels.partial_screen and scored.handover.result.exit_code == 0
    context.exit(exits.DONE if in_full else exits.NOT_IN_FULL)


Shown = tuple[dict[str, Any], list[str], list[str]]
"""As data, as text, and the arithmetic as text."""


def _card(scored: Scored, version: str, *, explain: bool) -> Shown:
    arithmetic = list(lines(scored.card)) if explain else []
    extra = {"arithmetic": arithmetic} if explain else {}
    return {**card_data(scored), **extra}, card_lines(scored, version), arithmetic


def _other(scored: Scored, method: str, *, explain: bool) -> Shown:
    handover = scored.handover
    found = result_of(method, handover.plan, handover.tries)
    plan = handover.plan
    title = f"{plan.agent_id}@{plan.agent_version}  on  {plan.pack_id}@{plan.pack_version}"
    text = method_lines(found, method, title)
    if not scored.closed:
        text.append("  the screening is still open: these figures will change")
    data = {**method_data(found, explain=explain), **verification_data(scored)}
    return data, text, arithmetic_lines(found) if explain else []
