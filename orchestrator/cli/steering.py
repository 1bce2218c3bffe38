"""What `assize pause`, `resume` and `cancel` have in common: one screening, one change, one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from orchestrator.cli import completion
from orchestrator.cli.output import emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger

SCHEMA: Final = "assize.steered/1"
Change = Callable[[Ledger, str], str]
"""Makes the change and says in a sentence what became of it."""


def steering(name: str, short: str, text: str, change: Change) -> click.Command:
    """A command over one SCREENING."""

    @click.command(name, short_help=short, help=text, epilog="Next: assize status SCREENING --watch.")
    @click.argument("screening", shell_complete=completion.screenings)
    @json_option
    @click.pass_context
    def command(context: click.Context, screening: str, as_json: bool) -> None:
        with reading(context) as found:
            ledger, screening_id = found.find(queries.find_screening, "screening", screening)
            sentence = change(ledger, screening_id)
            row = queries.screening(ledger, screening_id)
        if as_json:
            data = {"screening": screening_id, "state": row["state"], "stop_reason": row["stop_reason"]}
            emit(SCHEMA, {**data, "done": sentence})
        else:
            click.echo(f"{screening_id}: {sentence}")

    return command
