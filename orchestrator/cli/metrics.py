"""`assize metrics`: figures for Prometheus, from the ledger."""

from __future__ import annotations

import os
import threading
from typing import Final

import click

from orchestrator.cli.brokers import broker_options, chosen_broker
from orchestrator.cli.output import emit, json_option, say
from orchestrator.cli.reading import reading
from orchestrator.errors import HostError, UsageError

SCHEMA: Final = "assize.metrics/1"
_VARIABLES: Final = ("ASSIZE_BROKER_URL", "ASSIZE_BROKER_FILE")


@click.command(
    "metrics",
    short_help="Figures for Prometheus, computed from the ledger.",
    epilog="Next: assize worker list, assize doctor.",
)
@broker_options
@click.option(
    "--listen", default="127.0.0.1:9464", show_default=True, metavar="HOST:PORT", help="Where to serve them."
)
@click.option("--once", is_flag=True, help="Print them and end (so does --json).")
@json_option
@click.pass_context
def command(
    context: click.Context,
    broker: str | None,
    broker_file: str | None,
    listen: str,
    once: bool,
    as_json: bool,
) -> None:
    """Serve the ledger's figures at /metrics until stopped; with a broker, the length of its queues too.

    \b
    Examples:
      assize metrics --once
      assize metrics --listen 127.0.0.1:9464
    """
    from prometheus_client import start_http_server

    from orchestrator.engine.celery.broker import Publisher
    from orchestrator.engine.celery.metrics import figures_of, registry_of, text_of
    from orchestrator.engine.celery.times import Times

    named = broker or broker_file or any(os.environ.get(name) for name in _VARIABLES)
    publisher = Publisher(chosen_broker(broker, broker_file)) if named else None
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"{listen} is no HOST:PORT", hint="for example 127.0.0.1:9464")
    with reading(context) as found:
        if found.ledger is None:
            raise UsageError(f"nothing was screened in {found.home.root} yet", hint="assize screen --help")
        registry = registry_of(found.ledger, Times(), publisher)
        if as_json:
            emit(SCHEMA, {"figures": figures_of(registry)})
            return
        if once:
            click.echo(text_of(registry), nl=False)
            return
        try:
            start_http_server(int(port), host, registry)
        except OSError as error:
            raise HostError(f"{listen} cannot be listened on: {error.strerror}") from None
        say(f"http://{listen}/metrics until stopped")
        threading.Event().wait()
