"""`assize dispatch`: the daemon of campaigns on many hosts, with the signer in it."""

from __future__ import annotations

import platform
import signal
import threading
from typing import TYPE_CHECKING, Final

import click
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.cli.brokers import broker_options, chosen_broker
from orchestrator.cli.output import emit, home_of, json_option, say
from orchestrator.ledger import hosts
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.screenings.installation import Installation

if TYPE_CHECKING:
    from orchestrator.screenings.notary import Notary

SCHEMA: Final = "assize.dispatch/1"
_LOOK_S: Final = 1.0


@click.command(
    "dispatch",
    short_help="Dispatch and certify campaigns of many hosts until stopped.",
    epilog="Next: assize worker list, assize status --watch.",
)
@broker_options
@click.option("--name", metavar="HOST", help="Name of this host in lists. [default: its host name]")
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    broker: str | None,
    broker_file: str | None,
    name: str | None,
    once: bool,
    as_json: bool,
) -> None:
    """Send what may start to the workers, take over what is lost, certify what is recorded, close what is
    complete: for every screening with --engine celery, until SIGTERM or Ctrl-C.

    Workers dispatch by themselves too; only this process and `assize screen` hold the keys and sign.

    \b
    Examples:
      assize dispatch --broker redis://10.0.0.1:6379/0
      assize dispatch --broker-file /run/secrets/broker --once
    """
    from orchestrator.engine.celery.broker import Publisher
    from orchestrator.engine.celery.keeper import Keeper
    from orchestrator.engine.celery.times import Times
    from orchestrator.screenings.notary import Notary
    from orchestrator.screenings.relaying import take_limits
    from orchestrator.screenings.workshop import Caretaker

    url, said = chosen_broker(broker, broker_file), list[str]()
    installation, times = Installation.open(home_of(context)), Times()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        take_limits(installation.home, installation.ledger, whole=True)
        notary = Notary(installation)
        worker_id = hosts.enter(installation.ledger, WorkerRole.DISPATCHER, host_name=name or platform.node())
        callbacks = Caretaker(installation.home).callbacks(installation.ledger)
        keeper = Keeper(
            installation.ledger, Publisher(url, margin_s=times.margin_s), callbacks, times, worker_id
        )
        try:
            if once:
                keeper.turn()
                _certify(notary, said)
                return
            keeper.start()
            say("dispatching and certifying until stopped")
            while not stopped.is_set():
                _certify(notary, said)
                stopped.wait(_LOOK_S)
        finally:
            keeper.stop()
            hosts.leave(installation.ledger, worker_id)
            if as_json:
                emit(SCHEMA, {"undone": said})
    finally:
        installation.close()


def _certify(notary: Notary, said: list[str]) -> None:
    """One turn of the signer; what it left undone is said once."""
    try:
        undone = notary.turn()
    except SQLAlchemyError as error:
        undone = [f"the ledger does not answer: {str(error).partition(chr(10))[0]}"]
    for line in undone:
        if line not in said:
            said.append(line)
            say(f"warning: {line}")
