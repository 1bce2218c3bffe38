"""A worker of many hosts for the suite of hostile agents: `python case_worker.py FOLDER --slots N`.

It is `assize worker run` but for the attempt function, which has an honest sibling beside every attempt and
leaves what it saw in FOLDER, one file per case. Home, ledger and broker come by the usual variables. It does
not remove what dead attempts left: the siblings are in no ledger, so it would take them for dead.
"""

from __future__ import annotations

import pickle
import platform
import sys
from pathlib import Path

from orchestrator.cli.brokers import chosen_broker
from orchestrator.engine.celery.worker import Worker, WorkerSetup
from orchestrator.home import Home
from orchestrator.planning.classes import queues_of
from orchestrator.screenings.launch import hardware_class
from orchestrator.screenings.workshop import Caretaker, Workshop
from tests.assets.hostile.case_canaries import HostWatch
from tests.assets.hostile.case_witness import Witness, Witnessed
from workers.attempt.runner import AttemptRunner
from workers.sandbox.client import Engine


def main(folder: Path, slots: int) -> int:
    """Serve until told to end."""

    def note(one: Witnessed) -> None:
        path = folder / one.order.attempt_id
        path.write_bytes(pickle.dumps(one))

    def witness() -> Witness:
        engine = Engine()
        return Witness(engine, AttemptRunner(), HostWatch(engine, folder.parent / "sentinel"), note)

    home = Home.resolve()
    caretaker = Caretaker(home)
    own = hardware_class()
    setup = WorkerSetup(
        database_url=home.database_url,
        broker=chosen_broker(None, None),
        host_name=platform.node(),
        slots=slots,
        queues=tuple(queues_of(own)),
        hardware_class=own,
        open_shop=lambda ledger: Workshop(home, ledger, witness),
        reaper=caretaker.callbacks,
    )
    try:
        return Worker(setup).run(lambda line: print(line, file=sys.stderr))  # noqa: T201 - its own log
    finally:
        caretaker.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[3])))
