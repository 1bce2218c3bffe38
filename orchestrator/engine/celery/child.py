"""One process of the pool: claim, run, record, one attempt at a time, with a heartbeat beside it.

Everything is opened here, after the fork: two connections to the database (the heart has its own), the
Docker client, the relay. When the first message arrives, not in `worker_process_init`: a slow one makes the
pool kill its children in a loop (reference/distribution.md section 2).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.engine.base import Callbacks, Ended, Stop, Voided
from orchestrator.engine.breaker import Breaker
from orchestrator.engine.celery.logs import bound
from orchestrator.engine.celery.times import Times
from orchestrator.engine.control import Control
from orchestrator.engine.runner import Result, run_attempt
from orchestrator.errors import AssizeError
from orchestrator.ledger import hosts, owners, placement, window
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.placement import HostFullError, Size
from orchestrator.ledger.transitions import Claim, beat, claim_message

NOT_READY_S: Final = 10.0
FULL_S: Final = 2.0
_LOOK_S: Final = 0.2
_logger = logging.getLogger(__name__)


class Shop(Protocol):
    """What a child works with, made by the caller of the engine after the fork."""

    @property
    def callbacks(self) -> Callbacks:
        """The attempt function and what belongs to it; `certify` and `progress` are never called."""

    def close(self) -> None:
        """Wait for what runs in the background and let everything go."""


@dataclass(frozen=True)
class ChildSetup:
    """What a child gets from its parent: plain values and one function.

    `open_shop` is called once, in the child; `unfit` tells the parent that this host should take no more.
    `room` is the size of the host, None where it is not known.
    """

    database_url: str
    times: Times
    worker_id: str
    open_shop: Callable[[Ledger], Shop]
    unfit: Callable[[str], None]
    room: Size | None = None


class Heart:
    """Beats for one attempt in a thread of its own, from the claim until its end is recorded."""

    def __init__(self, ledger: Ledger, times: Times, control: Control) -> None:
        self._ledger = ledger
        self._times = times
        self._control = control
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._pump, name="assize-heart", daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _pump(self) -> None:
        while not self._stopped.wait(self._times.beat_ms / 1000):
            try:
                self.beat()
            except SQLAlchemyError as error:
                # The lease outlasts several beats, and no reaper voids what it could not watch.
                _logger.warning("heartbeat not written: %s", str(error).partition("\n")[0])
                self._control.keep_deadline()

    def beat(self) -> None:
        """Renew the lease and pass on what the ledger says: go on, stop, or you are a zombie."""
        control, held = self._control, self._control.held
        phases = {held.attempt_id: control.current}
        sent = time.monotonic()
        answer = beat(self._ledger, held.owner_id, phases, lease_ms=self._times.lease_ms)
        if held.attempt_id not in answer.live:
            control.stop(Stop.TOKEN)
            return
        control.renewed(sent)
        if held.attempt_id in answer.cancelled:
            control.stop(Stop.SCREENING)
        else:
            control.keep_deadline()


def _wait_for(ready: Callable[[], bool], most_s: float) -> None:
    """Take no further message until the host is ready, but come back: the worker may be told to end."""
    until = time.monotonic() + most_s
    while not ready() and time.monotonic() < until:
        time.sleep(_LOOK_S)


class Child:
    """This process as an owner of attempts."""

    def __init__(self, setup: ChildSetup) -> None:
        self._setup = setup
        self._ledger = Ledger(create_engine(setup.database_url))
        self._heart_ledger = Ledger(create_engine(setup.database_url))
        self._owner = owners.register(self._ledger, setup.worker_id)
        self._shop = setup.open_shop(self._ledger)
        self._breaker = Breaker()

    def work(self, slot_id: str, generation: int) -> Result | None:
        """Serve one message; None when the claim was refused, which is no error."""
        callbacks, setup = self._shop.callbacks, self._setup
        try:
            callbacks.admit()
        except AssizeError as error:
            window.give_back(self._ledger, slot_id, generation)
            setup.unfit(error.message)
            return None
        if not callbacks.ready():
            _logger.warning("slot %s is left to others: the engine of this host does not answer", slot_id)
            window.give_back(self._ledger, slot_id, generation)
            _wait_for(callbacks.ready, NOT_READY_S)
            return None
        held = self._claim(slot_id, generation)
        if held is None:
            return None
        result = self._run(held, callbacks)
        self._judge_host(held, result)
        return result

    def _claim(self, slot_id: str, generation: int) -> Claim | None:
        setup = self._setup
        try:
            held = claim_message(
                self._ledger,
                slot_id,
                generation,
                self._owner.id,
                lease_ms=setup.times.lease_ms,
                worker_id=setup.worker_id,
                room=setup.room,
            )
        except HostFullError:
            # Another host may have room; this place looks again soon, for the next one may be smaller.
            window.give_back(self._ledger, slot_id, generation)
            full = placement.taken(self._ledger, setup.worker_id)
            _wait_for(lambda: placement.taken(self._ledger, setup.worker_id) != full, FULL_S)
            return None
        if held is None:
            self._refused(slot_id, generation)
        return held

    def _run(self, held: Claim, callbacks: Callbacks) -> Result:
        control = Control(held, None, calls_ms=self._setup.times.engine().calls_ms)
        with bound(held), Heart(self._heart_ledger, self._setup.times, control):
            _logger.info("attempt %d of slot %s begins", held.number, held.slot_id)
            result = run_attempt(self._ledger, callbacks, self._setup.times.engine(), control)
            _logger.info("attempt %s: %s", held.attempt_id, type(result).__name__.lower())
            return result

    def _refused(self, slot_id: str, generation: int) -> None:
        hosts.count_refusal(self._ledger, self._setup.worker_id)
        # Refused because this host drains: another one must hear of it now and not after a sweep.
        window.give_back(self._ledger, slot_id, generation, draining=self._setup.worker_id)

    def _judge_host(self, held: Claim, result: Result) -> None:
        if not isinstance(result, (Ended, Voided)) or result.outcome is None:
            return
        if self._breaker.note(held.slot_id, result.reason):
            self._setup.unfit(f"many tries in a row ended by a fault of this host ({result.reason})")

    def close(self) -> None:
        """The process ends in good order."""
        self._shop.close()
        try:
            owners.retire(self._ledger, self._owner)
        except SQLAlchemyError as error:
            _logger.warning("not signed off: %s", str(error).partition("\n")[0])
        self._ledger.close()
        self._heart_ledger.close()
