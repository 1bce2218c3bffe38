"""`assize worker health`: does the worker (or dispatcher) of this host do its work? For health checks."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Final

import click

from orchestrator.cli import exits
from orchestrator.cli.output import cell, emit, json_option
from orchestrator.cli.reading import reading
from orchestrator.ledger import hosts
from orchestrator.ledger.hosts import WorkerRole

SCHEMA: Final = "assize.worker-health/1"


@click.command(
    "health", short_help="Does this host's worker do its work?", epilog="Next: assize worker list."
)
@click.option("--name", metavar="HOST", help="Host to ask about. [default: this host's name]")
@click.option(
    "--role",
    type=click.Choice([one.value for one in WorkerRole]),
    default=WorkerRole.WORKER.value,
    show_default=True,
    help="What the process does.",
)
@json_option
@click.pass_context
def health(context: click.Context, name: str | None, role: str, as_json: bool) -> None:
    """Say whether the newest worker of HOST is there and works: it beat within three beats, its children run,
    its sweeper and reaper went round, and tries do not wait beside a free place. Exit 1 when not.

    Run it on the worker's own machine (or in its container), where the children can be seen.

    \b
    Examples:
      assize worker health
      assize worker health --role dispatcher --json
    """
    from orchestrator.engine.celery.health import judge, look
    from orchestrator.engine.celery.times import Times
    from orchestrator.ledger.presence import newest

    host, times = name or platform.node(), Times()
    with reading(context) as found:
        presence, draining = None, False
        if found.ledger is not None:
            presence = newest(found.ledger, host, WorkerRole(role), beat_ms=times.beat_ms)
            draining = role == WorkerRole.WORKER and hosts.is_draining(found.ledger, host)
    seen = None if presence is None else look(presence)
    checks = judge(presence, seen, times, draining=draining)
    healthy = all(one.holds for one in checks)
    if as_json:
        rows = [asdict(one) for one in checks]
        emit(SCHEMA, {"host": host, "role": role, "healthy": healthy, "checks": rows})
    else:
        click.echo(cell(f"{host}: {'healthy' if healthy else 'NOT healthy'}"))
        for one in checks:
            click.echo(cell(f"  {'ok ' if one.holds else 'BAD'} {one.name}: {one.detail}"))
    context.exit(exits.DONE if healthy else exits.REFUSED)
