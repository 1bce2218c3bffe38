"""What `assize screen` says before it runs: the plan of a dry run, and the most that can be spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from orchestrator.cli import exits
from orchestrator.cli.money import usd_text
from orchestrator.cli.output import cell, emit, facts, table_lines
from orchestrator.cli.price_rows import usd
from orchestrator.packs.pack import Pack, PackTask
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.spending import Spending, paid

PLAN_SCHEMA: Final = "assize.screen-plan/1"
_MODEL_HEADERS: Final = ("agent", "role", "provider", "model", "input", "output (USD per million tokens)")
_INPUT: Final = "input_nusd_per_mtok"
_OUTPUT: Final = "output_nusd_per_mtok"


def limit_line(spendings: Sequence[Spending]) -> str | None:
    """The most that the tries to come can cost, in one line; None where nothing is paid."""
    paying = paid(spendings)
    if not paying:
        return None
    most, each = usd_text(sum(one.most_nusd for one in paying)), usd_text(paying[0].try_cap_nusd)
    tries = sum(one.tries for one in paying)
    counted = "1 try" if tries == 1 else f"{tries} tries"
    return (
        f"at most {most} USD for model calls, in {counted} of up to {each} USD; "
        "tries repeated after platform faults come on top"
    )


def show_plan(
    pack: Pack,
    tasks: Sequence[PackTask],
    spendings: Sequence[Spending],
    conditions: ScreeningConditions,
    *,
    as_json: bool,
) -> int:
    """The plan of --dry-run; 1 when a task is refused, so that nothing of it could run."""
    refused = {
        task.id: [refusal.message for refusal in pack.refusals(task)] for task in tasks if pack.refusals(task)
    }
    if as_json:
        emit(PLAN_SCHEMA, _data(pack, tasks, spendings, conditions, refused))
    else:
        click.echo(f"{pack.label}  {pack.digest}")
        agents = "agent" if len(spendings) == 1 else "agents"
        count = f"{len(tasks)} tasks x {conditions.tries} tries x {len(spendings)} {agents}"
        click.echo(f"{count} = {sum(one.tries for one in spendings)} tries")
        for task in tasks:
            why = f"   refused: {'; '.join(refused[task.id])}" if task.id in refused else ""
            click.echo(cell(f"  {task.id}{why}"))
        if conditions.visibility == "private":
            click.echo("private: evidence only, never a certificate, a log entry or a score")
        for line in _money_lines(spendings, conditions):
            click.echo(line)
    return exits.REFUSED if refused else exits.DONE


def _data(
    pack: Pack,
    tasks: Sequence[PackTask],
    spendings: Sequence[Spending],
    conditions: ScreeningConditions,
    refused: dict[str, list[str]],
) -> dict[str, Any]:
    return {
        "pack": pack.label,
        "pack_digest": pack.digest,
        "agents": [one.agent for one in spendings],
        "tasks": [task.id for task in tasks],
        "tries": sum(one.tries for one in spendings),
        "models": [row for one in spendings for row in _models(one)],
        "try_cap_nusd": str(conditions.try_cap_nusd),
        "most_nusd": str(sum(one.most_nusd for one in paid(spendings))),
        "rehearsed": conditions.rehearsal_digest is not None,
        "conditions": conditions.as_data(),
        "refused": refused,
        "deviations": {task.id: [str(one.message) for one in pack.deviations(task)] for task in tasks},
    }


def _models(spending: Spending) -> list[dict[str, Any]]:
    """One row per model; rates are integer nano-USD per million tokens."""
    return [
        {
            "agent": spending.agent,
            "role": model.role,
            "provider": model.provider,
            "model": model.model,
            _INPUT: price.standard.input,
            _OUTPUT: price.standard.output,
        }
        for model, price in spending.models
    ]


def _money_lines(spendings: Sequence[Spending], conditions: ScreeningConditions) -> list[str]:
    """Models with their prices (USD per million tokens) and the caps; nothing where no model is called."""
    rows = [row for one in spendings for row in _models(one)]
    if not rows:
        return []
    shown = [
        [row["agent"], row["role"], row["provider"], row["model"], usd(row[_INPUT]), usd(row[_OUTPUT])]
        for row in rows
    ]
    limits = [("try cap", f"{usd_text(conditions.try_cap_nusd)} USD, {conditions.step_limit} model calls")]
    if conditions.cost_cap_nusd is not None:
        limits.append(("cost cap", f"{usd_text(conditions.cost_cap_nusd)} USD per agent"))
    rehearsal = "a rehearsal: nothing is paid, and nothing counts as a pass"
    limits.append(("spending", limit_line(spendings) or rehearsal))
    return [*table_lines(_MODEL_HEADERS, shown), *facts(limits)]
