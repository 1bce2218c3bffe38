"""`assize screen`: plan, run, certify and score; the same command resumes."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from orchestrator.agents import registry
from orchestrator.cli import completion, exits
from orchestrator.cli.brokers import broker_options, chosen_broker
from orchestrator.cli.cards import card_data, card_lines
from orchestrator.cli.display import display_for
from orchestrator.cli.durations import Duration
from orchestrator.cli.money import Usd
from orchestrator.cli.output import call_of, cell, emit, home_of, json_option, say
from orchestrator.cli.screen_plan import limit_line, show_plan
from orchestrator.engine.signals import interrupts
from orchestrator.errors import UsageError
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.states import OPEN_SCREENINGS, EngineName
from orchestrator.packs import catalog
from orchestrator.packs.pack import Pack
from orchestrator.planning.conditions import DISK_MODES, CapOverrides, DiskCondition, ScreeningConditions
from orchestrator.prices.sheet import PriceSheet
from orchestrator.screenings.concluding import conclude, together
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import Launch, Outcome, chosen_tasks, hardware_class, launch, run
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.relaying import (
    DEFAULT_STEP_LIMIT,
    DEFAULT_TRY_CAP_NUSD,
    conditions_for,
    file_digest,
    find_script,
    keep_script,
    keep_sheet,
    role_of,
    take_limits,
    with_model,
)
from orchestrator.screenings.scorecard import score_screening
from orchestrator.screenings.spending import Spending, spending_of

SCHEMA: Final = "assize.screen/1"


@click.command(
    "screen",
    epilog="Next: assize score SCREENING, assize tries SCREENING, assize verify FILE.",
    short_help="Screen agents on a pack; the same command resumes.",
)
@click.argument("pack", shell_complete=completion.packs)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    metavar="AGENT",
    shell_complete=completion.agents,
    help="Agent name, name@version, digest prefix or TOML file; repeat for more.",
)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeat for more.")
@click.option("--tries", type=click.IntRange(1, 100), help="Tries per task. [default: the pack's]")
@click.option("--parallel", type=click.IntRange(1, 256), help="Tries at once. [default: cores of this host]")
@click.option("--agent-wall-s", type=click.IntRange(1), help="Wall-clock cap of the agent phase, seconds.")
@click.option("--model", metavar="MODEL", help="Model for agents that take any: PROVIDER/MODEL or MODEL.")
@click.option(
    "--small-model", metavar="MODEL", help="Model for an agent's role small. [default: the main model]"
)
@click.option("--try-cap", type=Usd(), help="Most that one try may spend on models, USD. [default: 1]")
@click.option("--cost-cap", type=Usd(), help="Most that all tries may spend together, USD.")
@click.option(
    "--steps", type=click.IntRange(1, 1_000_000), help="Most model calls of one try. [default: 100]"
)
@click.option(
    "--output-tokens",
    type=click.IntRange(1, 10_000_000),
    help="Most output tokens of one model call, for agents that can be told. [default: the agent's own]",
)
@click.option(
    "--provider-tool",
    "provider_tools",
    multiple=True,
    metavar="KIND",
    help="Tool that the provider may run (web_search); repeat for more.",
)
@click.option(
    "--rehearse", metavar="SCRIPT", help="Scripted provider instead of real ones; nothing counts as a pass."
)
@click.option(
    "--prices", "prices_file", type=click.Path(path_type=Path), help="Price sheet. [default: the bundled one]"
)
@click.option("--runtime", default="runc", show_default=True, help="Container runtime, never substituted.")
@click.option(
    "--disk",
    type=click.Choice(DISK_MODES),
    default=DISK_MODES[0],
    show_default=True,
    help="Where an agent may write: anywhere, or (strict, loop) only to places of a fixed size.",
)
@click.option(
    "--disk-mb",
    type=click.IntRange(1, 1_000_000),
    help="Most that an agent may write, MiB. [default: 10240]",
)
@click.option("--requested-by", default="operator:local", show_default=True, help="Who asks for it.")
@click.option("--funded-by", default="operator:local", show_default=True, help="Who pays for it.")
@click.option("--operated-by", default="lab:local", show_default=True, help="Who runs it.")
@click.option(
    "--private", is_flag=True, help="Evidence only: never a certificate, a log entry or a score, nor later."
)
@broker_options
@click.option(
    "--engine",
    type=click.Choice([one.value for one in EngineName]),
    default=EngineName.LOCAL.value,
    show_default=True,
    help="Run the tries here, or on the workers of many hosts.",
)
@click.option(
    "--share", type=click.IntRange(1, 1000), default=1, help="Weight among screenings that wait for workers."
)
@click.option(
    "--start-window",
    type=Duration(),
    default=0,
    help="Spread the first starts at random over it: 90s, 30m, 6h, 2d.",
)
@click.option(
    "--hardware-class", metavar="CLASS", help="Hardware that the tries are promised. [default: this host's]"
)
@click.option("--again", is_flag=True, help="Begin a new screening although an equal one is complete.")
@click.option(
    "--dry-run", is_flag=True, help="Show the plan, models, prices and the most it can cost; run nothing."
)
@click.option("--jsonl", is_flag=True, help="One JSON event a line on standard output while it runs.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Screen one or more AGENTs on PACK (a name, or a folder of Harbor tasks).

    Ctrl-C once lets running tries end, twice cancels them, three times leaves; the same command resumes.
    With --engine celery, workers run the tries (`assize worker run`): Ctrl-C leaves them at it.

    \b
    Examples:
      assize screen coding-core --agent shell --model openai/gpt-5-mini --try-cap 0.50
      assize screen ./my-tasks --agent oracle --agent ./my-agent.toml --task fix-login --tries 1
    """
    home = home_of(context)
    pack = catalog.resolve(home, options["pack"]).load()
    sheet = PriceSheet.load(options["prices_file"]) if options["prices_file"] else PriceSheet.bundled()
    model = role_of(options["model"], sheet) if options["model"] else None
    small = role_of(options["small_model"], sheet, "small") if options["small_model"] else None
    named = [registry.resolve(home, name) for name in dict.fromkeys(options["agents"])]
    revisions = [with_model(one, model, small) for one in named]
    conditions = _conditions(pack, sheet, options)
    tasks = chosen_tasks(pack, options["tasks"])
    # Whatever lacks a price or a key is refused here, before images are built and anything is planned.
    spendings = [
        spending_of(home, one, conditions_for(one, conditions), sheet, len(tasks)) for one in revisions
    ]
    if options["dry_run"]:
        context.exit(show_plan(pack, tasks, spendings, conditions, as_json=options["as_json"]))
    broker = _broker(options)
    sponsors = Sponsors(options["requested_by"], options["funded_by"], options["operated_by"])
    installation = Installation.open(home)
    keep_sheet(home, sheet)
    take_limits(home, installation.ledger, whole=False)
    if options["rehearse"]:
        keep_script(home, find_script(options["rehearse"]))
    try:
        launches = launch(
            installation,
            pack,
            revisions,
            conditions,
            sponsors,
            again=options["again"],
            say=_say_step,
            start_window_ms=options["start_window"],
        )
        outcome = _run(installation, launches, spendings, options, broker)
        code = _finish(installation, launches, outcome, options, call_of(context))
    finally:
        installation.close()
    context.exit(code)


def _broker(options: dict[str, Any]) -> str | None:
    """The broker of the engine of many hosts; None for the local one. `UsageError` for what does not fit."""
    if options["engine"] == EngineName.LOCAL:
        if options["broker"] or options["broker_file"]:
            raise UsageError("a broker is for workers of many hosts", hint="add --engine celery")
        return None
    if options["parallel"]:
        raise UsageError(
            "--parallel is for this machine alone", hint="workers have their own: `assize worker run --slots`"
        )
    return chosen_broker(options["broker"], options["broker_file"])


def _say_step(line: str) -> None:
    say(f"  {line}")


def _conditions(pack: Pack, sheet: PriceSheet, options: dict[str, Any]) -> ScreeningConditions:
    wall_s, try_cap = options["agent_wall_s"], options["try_cap"]
    if options["cost_cap"] == 0:
        raise UsageError("with --cost-cap 0 no try could start", hint="--dry-run shows the plan")
    rehearsal = file_digest(find_script(options["rehearse"])) if options["rehearse"] else None
    try:
        return ScreeningConditions(
            tries=options["tries"] or pack.manifest.tries_per_task,
            tasks=tuple(task.id for task in chosen_tasks(pack, options["tasks"]))
            if options["tasks"]
            else None,
            caps=CapOverrides(agent_wall_ms=wall_s * 1000 if wall_s else None),
            network="relay-only",
            step_limit=options["steps"] or DEFAULT_STEP_LIMIT,
            cost_cap_nusd=options["cost_cap"],
            try_cap_nusd=DEFAULT_TRY_CAP_NUSD if try_cap is None else try_cap,
            output_tokens=options["output_tokens"],
            provider_tools=options["provider_tools"],
            prices_digest=sheet.digest,
            rehearsal_digest=rehearsal,
            visibility="private" if options["private"] else "public",
            runtime=options["runtime"],
            hardware_class=options["hardware_class"] or hardware_class(),
            disk=_disk(options),
        )
    except ValueError as error:
        raise UsageError(f"these conditions do not fit: {error}") from None


def _disk(options: dict[str, Any]) -> DiskCondition:
    size = options["disk_mb"]
    return DiskCondition(mode=options["disk"], **({"bytes": size << 20} if size else {}))


def _parallel(options: dict[str, Any]) -> int:
    return options["parallel"] or max(1, os.cpu_count() or 1)


def _run(
    installation: Installation,
    launches: list[Launch],
    spendings: list[Spending],
    options: dict[str, Any],
    broker: str | None,
) -> Outcome:
    names = {one.screening_id: one.bench.agent.revision.label for one in launches}
    views = {one: queries.status(installation.ledger, one) for one in names}
    totals = {one: view.total for one, view in views.items()}
    quiet = options["quiet"] or options["as_json"]
    for one in launches:
        if one.resumed and one.state not in OPEN_SCREENINGS:
            say(f"{names[one.screening_id]}: already {one.state}; --again begins a new screening")
    closed = conclude(installation, [one for one in launches if one.state not in OPEN_SCREENINGS])
    open_ = [one for one in launches if one.state in OPEN_SCREENINGS]
    if not open_:
        return closed
    to_come = [
        replace(
            one, tries=view.open, cap_nusd=None if view.cap_nusd is None else view.cap_nusd - view.used_nusd
        )
        for one, view in zip(spendings, views.values(), strict=True)
    ]
    if line := limit_line(to_come):
        say(line)
    with display_for(names, totals, jsonl=options["jsonl"], quiet=quiet) as display:
        if broker is not None:
            from orchestrator.screenings.hosts import run_on_hosts

            outcome = run_on_hosts(
                installation,
                open_,
                broker=broker,
                host_name=platform.node(),
                progress=display,
                guard=interrupts,
                say=say,
                share=options["share"],
            )
        else:
            outcome = run(
                installation,
                open_,
                parallel=_parallel(options),
                progress=display,
                guard=interrupts,
            )
    return together(outcome, closed)


def _finish(
    installation: Installation, launches: list[Launch], outcome: Outcome, options: dict[str, Any], call: str
) -> int:
    for warning in outcome.warnings:
        say(f"warning: {warning}")
    if outcome.result.interrupted:
        if options["engine"] == EngineName.CELERY:
            say(f"next: the same command comes back to it; {call} status --watch, {call} cancel SCREENING")
        if options["as_json"]:
            emit(SCHEMA, {"interrupted": True, "screenings": _states(installation, launches)})
        return exits.INTERRUPTED
    if any(one.private for one in launches):
        return _finish_private(installation, launches, options, call)
    scored = {one.screening_id: score_screening(installation, one.screening_id) for one in launches}
    bundles = {key: str(path) for key, path in outcome.bundles.items()}
    if options["as_json"]:
        cards = [
            {"screening": key, "bundle": bundles.get(key), **card_data(one)} for key, one in scored.items()
        ]
        emit(SCHEMA, {"interrupted": False, "screenings": _states(installation, launches), "cards": cards})
    elif not options["jsonl"]:
        for one in launches:
            click.echo()
            for line in card_lines(scored[one.screening_id], one.bench.agent.revision.version):
                click.echo(cell(line))
        click.echo()
        _show_places(installation.home, launches, bundles, call)
    counted_in_full = all(
        not one.card.labels.partial_screen and one.handover.result.exit_code == 0 for one in scored.values()
    )
    return exits.DONE if counted_in_full else exits.NOT_IN_FULL


def _finish_private(
    installation: Installation, launches: list[Launch], options: dict[str, Any], call: str
) -> int:
    """What a private run shows to its owner: the record, and that nothing of it is certified."""
    if options["as_json"]:
        states = _states(installation, launches)
        emit(SCHEMA, {"interrupted": False, "private": True, "screenings": states, "cards": []})
    elif not options["jsonl"]:
        for one in launches:
            view = queries.status(installation.ledger, one.screening_id)
            sums = ", ".join(f"{count} {outcome}" for outcome, count in view.outcomes.items() if count)
            click.echo(cell(f"private  {one.bench.agent.revision.label} on {one.bench.pack.label}: {sums}"))
            click.echo("  on sandbox evidence alone: no certificate, no log entry, no score")
            click.echo(f"  {call} tries {one.screening_id}")
        click.echo(f"evidence  {installation.home.evidence}")
    return exits.NOT_IN_FULL


def _states(installation: Installation, launches: list[Launch]) -> list[dict[str, Any]]:
    return [
        {
            "screening": one.screening_id,
            "agent": one.bench.agent.revision.label,
            "pack": one.bench.pack.label,
            "state": queries.screening(installation.ledger, one.screening_id)["state"],
        }
        for one in launches
    ]


def _show_places(home: Home, launches: list[Launch], bundles: dict[str, str], call: str) -> None:
    click.echo(f"evidence      {home.evidence}")
    click.echo(f"trust root    {home.trust_root}")
    for one in launches:
        folder = home.certificates / one.screening_id
        click.echo(f"certificates  {folder}   ({one.bench.agent.revision.label})")
    click.echo("check them:")
    for path in bundles.values():
        click.echo(f"  {call} verify {path}")
