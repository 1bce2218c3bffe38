"""What a worker's children and its parent work with: the runner of this host, and orders of any screening."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.engine.base import Callbacks
from orchestrator.evidence.archive import open_store
from orchestrator.home import Home
from orchestrator.ledger import subnets
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.transitions import Claim
from orchestrator.screenings.attempts import Runner, liveness_of, load_runner, with_bundles
from orchestrator.screenings.callbacks import callbacks_for
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.kept import working_bench
from orchestrator.screenings.orders import Bench

_logger = logging.getLogger(__name__)


class Workshop:
    """One per child of a worker, opened after the fork: Docker client, relay and benches are its own."""

    def __init__(self, home: Home, ledger: Ledger, make_runner: Callable[[], Runner] = load_runner) -> None:
        self._installation = Installation(home, ledger, open_store(home.evidence))
        self._runner = make_runner()
        self._benches: dict[str, Bench] = {}
        callbacks = callbacks_for(self._installation, self._runner, self._order)
        self._callbacks = replace(callbacks, ready=self._runner.ready)

    @property
    def callbacks(self) -> Callbacks:
        """For one attempt after the other."""
        return self._callbacks

    def _order(self, held: Claim) -> AttemptOrder:
        bench = self._benches.get(held.screening_id)
        if bench is None:
            bench = working_bench(self._installation, held.screening_id, _logger.info)
            self._benches[held.screening_id] = bench
        return bench.order(held)

    def close(self) -> None:
        """Wait until every container is gone; what could not be removed is the reaper's."""
        for line in self._runner.close():
            _logger.warning("not removed: %s", line)


class Caretaker:
    """The parent's side of a worker: ends for attempts whose child is gone, and what they left behind.

    It runs in the keeper's thread. Its Docker client is opened at the first look.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._installation: Installation | None = None

    def callbacks(self, ledger: Ledger) -> Callbacks:
        """Salvage and metering over this home; it runs no attempt."""
        self._installation = Installation(self._home, ledger, open_store(self._home.evidence))
        return callbacks_for(self._installation, _no_attempt, _no_order)

    def tidy(self) -> None:
        """Remove containers, folders and leases of attempts of this home that are not live any more."""
        installation = self._installation
        if installation is None:
            return
        with self._lock:
            if self._runner is None:
                self._runner = load_runner()
            is_live = with_bundles(liveness_of(installation.ledger), self._home)
            if reaped := self._runner.reap(installation.label, is_live):
                _logger.warning("removed what dead attempts had left: %s", reaped)
            subnets.sweep(installation.ledger)

    def close(self) -> None:
        """Let the engine's client go."""
        with self._lock:
            if self._runner is not None:
                self._runner.close()
                self._runner = None


def _no_attempt(_order: AttemptOrder, _control: AttemptControl) -> AttemptReport:
    raise RuntimeError("the parent of a worker runs no attempt")


def _no_order(_held: Claim) -> AttemptOrder:
    raise RuntimeError("the parent of a worker makes no order")
