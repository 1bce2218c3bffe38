"""`assize worker`: run tries for campaigns of many hosts, and see and steer who does."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import Any, Final

import click

from orchestrator.cli import exits
from orchestrator.cli.brokers import broker_options, chosen_broker
from orchestrator.cli.listing import Column, listing_options, show_list, style_of
from orchestrator.cli.output import emit, home_of, json_option, say, when
from orchestrator.cli.reading import reading
from orchestrator.cli.worker_health import health
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ledger import hosts

LIST_SCHEMA: Final = "assize.workers/1"
RUN_SCHEMA: Final = "assize.worker-run/1"
DRAIN_SCHEMA: Final = "assize.worker-drain/1"
EMPTY: Final = "No workers. Next: assize worker run --broker redis://HOST:6379/0"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COLUMNS: Final = (
    Column("host", key="host_name"),
    Column("role"),
    Column("state"),
    Column("slots"),
    Column("running"),
    Column("refused"),
    Column("beaten", when, key="beaten_ms"),
    Column("claimed", when, key="claimed_ms"),
    Column("hardware", key="hardware_class"),
    Column("id", default=False),
    Column("children", default=False),
    Column("queues", lambda value: " ".join(value), default=False),
    Column("started", when, key="started_ms", default=False),
    Column("swept", when, key="swept_ms", default=False),
    Column("reaped", when, key="reaped_ms", default=False),
    Column("draining", _yes, default=False),
)


@click.group(
    "worker",
    short_help="Workers of many hosts: run, list, health, drain.",
    epilog="Next: assize worker list, assize screen PACK --agent AGENT --engine celery.",
)
def command() -> None:
    """Workers of many hosts: each runs tries that the ledger plans, one per slot at a time.

    \b
    Examples:
      assize worker run --broker redis://10.0.0.1:6379/0 --slots 4
      assize worker drain lab-3
    """


command.add_command(health)


@command.command("run", short_help="Run tries until stopped.", epilog="Next: assize worker list.")
@broker_options
@click.option("--slots", type=click.IntRange(1, 256), help="Tries at once. [default: cores of this host]")
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Serve only this queue; repeat.")
@click.option("--name", metavar="HOST", help="Name of this host in lists. [default: its host name]")
@click.option(
    "--hardware-class", metavar="CLASS", help="Hardware class whose tries it takes. [default: this host's]"
)
@click.option(
    "--task-events",
    is_flag=True,
    envvar="ASSIZE_TASK_EVENTS",
    show_envvar=True,
    help="Tell tools that watch Celery, such as Flower, of every message. They can look and not steer.",
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the log lines on standard error.",
)
@json_option
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run tries of every screening on many hosts until stopped. SIGTERM or Ctrl-C lets running tries end.

    The home must hold what the screenings were planned from (a folder shared with the process that planned
    them); ASSIZE_DATABASE_URL names the ledger. Workers hold no key and sign nothing.

    \b
    Examples:
      assize worker run --broker redis://10.0.0.1:6379/0
      assize worker run --broker-file /run/secrets/broker --slots 4 --log json
    """
    from orchestrator.engine.celery.logs import log_as_json
    from orchestrator.engine.celery.worker import Worker, WorkerSetup
    from orchestrator.planning.classes import queues_of
    from orchestrator.screenings.launch import hardware_class
    from orchestrator.screenings.workshop import Caretaker, Workshop

    broker = chosen_broker(options["broker"], options["broker_file"])
    home = home_of(context).prepare()
    own = options["hardware_class"] or hardware_class()
    queues = options["queues"] or queues_of(own)
    if not queues:
        raise UsageError(f"the hardware class {own} says no sizes", hint="name the queues: --queue QUEUE")
    name = options["name"] or platform.node()
    if options["log"] == "json":
        log_as_json(name)
    caretaker = Caretaker(home)
    setup = WorkerSetup(
        database_url=home.database_url,
        broker=broker,
        host_name=name,
        slots=options["slots"] or os.cpu_count() or 1,
        queues=tuple(dict.fromkeys(queues)),
        hardware_class=own,
        open_shop=lambda ledger: Workshop(home, ledger),
        reaper=caretaker.callbacks,
        tidy=caretaker.tidy,
        task_events=options["task_events"],
        on_ready=lambda _: say(f"ready: {setup.slots} slots of {own}, {len(setup.queues)} queues"),
    )
    try:
        code = Worker(setup).run(say)
    finally:
        caretaker.close()
    if options["as_json"]:
        emit(RUN_SCHEMA, {"host": name, "queues": list(setup.queues), "slots": setup.slots, "exit": code})
    context.exit(exits.DONE if code == 0 else exits.CANNOT)


@command.command("list", short_help="Every worker and dispatcher.", epilog="Next: assize worker drain HOST.")
@click.option("--all", "ended", is_flag=True, help="Also those that have ended.")
@listing_options(COLUMNS)
@click.pass_context
def list_(context: click.Context, ended: bool, style: str) -> None:
    """Every worker and dispatcher by host. `state`: serving, draining, silent (no beat for a minute), ended.

    \b
    Examples:
      assize worker list
      assize worker list --columns host,state,queues -o json
    """
    chosen = style_of(context, style)
    with reading(context) as found:
        rows = [] if found.ledger is None else worker_rows(found.ledger, ended=ended)
    show_list(chosen, rows, schema=LIST_SCHEMA, key="workers", empty=EMPTY)


def worker_rows(ledger: Any, *, ended: bool = False) -> list[dict[str, Any]]:
    """Workers as plain data, with the one word of their state."""
    from orchestrator.engine.celery.times import Times

    views = hosts.workers(ledger, beat_ms=Times().beat_ms, ended=ended)
    return [{**asdict(one), "queues": list(one.queues), "state": _state(one)} for one in views]


def _state(one: hosts.WorkerView) -> str:
    if one.ended_ms is not None:
        return "ended"
    if not one.present:
        return "silent"
    return "draining" if one.draining else "serving"


@command.command("drain", short_help="Let a host end its tries.", epilog="Next: assize worker undrain HOST.")
@click.argument("host")
@json_option
@click.pass_context
def drain(context: click.Context, host: str, as_json: bool) -> None:
    """Claim no further try on HOST; its workers exit when their last try has ended. For upgrades, too.

    \b
    Examples:
      assize worker drain lab-3
      assize --home ./.assize worker drain lab-3
    """
    _set(context, host, True, as_json)


@command.command("undrain", short_help="Let a host work again.", epilog="Next: assize worker list.")
@click.argument("host")
@json_option
@click.pass_context
def undrain(context: click.Context, host: str, as_json: bool) -> None:
    """Let workers on HOST claim again; one that waits for it begins at once.

    \b
    Examples:
      assize worker undrain lab-3
      assize --home ./.assize worker undrain lab-3
    """
    _set(context, host, False, as_json)


def _set(context: click.Context, host: str, draining: bool, as_json: bool) -> None:
    with reading(context) as found:
        if found.ledger is None:
            raise NotFoundError(f"no worker has ever run on a host called {host}", hint="assize worker run")
        changed = hosts.set_draining(found.ledger, host, draining)
    if as_json:
        emit(DRAIN_SCHEMA, {"host": host, "draining": draining, "changed": changed})
        return
    word = "draining" if draining else "serving"
    click.echo(f"{host}: {word}" if changed else f"{host}: {word} already")
