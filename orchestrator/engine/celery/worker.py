"""A worker process: Celery's prefork pool over our task, with a keeper beside it."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from celery import signals  # type: ignore[import-untyped]
from celery.platforms import SecurityWarning  # type: ignore[import-untyped]
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.engine.base import Callbacks
from orchestrator.engine.celery.broker import Publisher, make_app
from orchestrator.engine.celery.child import Child, ChildSetup, Shop
from orchestrator.engine.celery.forks import ForkGuard
from orchestrator.engine.celery.keeper import Keeper, Surroundings
from orchestrator.engine.celery.settings import TASK_NAME, worker_arguments
from orchestrator.engine.celery.times import Times
from orchestrator.engine.signals import ends_in_good_order
from orchestrator.ledger import hosts, owners
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.placement import Size
from orchestrator.planning.classes import size_of

_logger = logging.getLogger(__name__)
_DRAIN_LOOK_S: Final = 1.0


def _nothing() -> None:
    """Nothing to remove."""


def _room(hardware_class: str) -> Size | None:
    size = size_of(hardware_class)
    return None if size is None else Size(*size)


@dataclass(frozen=True)
class WorkerSetup:
    """One worker: its places, its queues, and what its children work with.

    `open_shop` is called in each child after the fork, `reaper` in the keeper's thread of this process: its
    `salvage` and `metered` are for attempts whose child is gone. `changes` are settings of Celery that a
    drill shortens. With `task_events`, tools that watch Celery see what this worker does.
    """

    database_url: str
    broker: str
    host_name: str
    slots: int
    queues: tuple[str, ...]
    hardware_class: str
    open_shop: Callable[[Ledger], Shop]
    reaper: Callable[[Ledger], Callbacks]
    tidy: Callable[[], None] = _nothing
    times: Times = field(default_factory=Times)
    changes: Mapping[str, Any] = field(default_factory=dict)
    on_ready: Callable[[Any], None] | None = None
    task_events: bool = False


class Worker:
    """Runs until it is told to stop: SIGTERM or Ctrl-C once lets running tries end, twice ends them."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._guard = ForkGuard()
        self._child: tuple[int, Child] | None = None
        self._child_setup: ChildSetup | None = None
        self._main_pid = os.getpid()
        self._pool: Any = None
        self._unfit = threading.Event()

    def run(self, say: Callable[[str], None]) -> int:
        """Serve, in the main thread; returns the exit code. The ledger's schema must be right, `SchemaError`
        otherwise."""
        with ends_in_good_order():  # Celery listens itself once it serves
            return self._run(say)

    def _run(self, say: Callable[[str], None]) -> int:
        setup = self._setup
        ledger = open_ledger(setup.database_url)
        try:
            self._wait_while_draining(ledger, say)
            worker_id = hosts.enter(
                ledger,
                WorkerRole.WORKER,
                host_name=setup.host_name,
                hardware_class=setup.hardware_class,
                slots=setup.slots,
                queues=setup.queues,
            )
            try:
                return self._serve(ledger, worker_id)
            finally:
                self._leave(ledger, worker_id)
        finally:
            ledger.close()

    def _wait_while_draining(self, ledger: Ledger, say: Callable[[str], None]) -> None:
        name = self._setup.host_name
        if hosts.is_draining(ledger, name):
            say(f"host {name} is draining; waiting for `assize worker undrain {name}`")
        while hosts.is_draining(ledger, name):
            time.sleep(min(_DRAIN_LOOK_S, self._setup.times.beat_ms / 1000))

    def _serve(self, ledger: Ledger, worker_id: str) -> int:
        setup = self._setup
        self._child_setup = ChildSetup(
            setup.database_url,
            setup.times,
            worker_id,
            setup.open_shop,
            self._say_unfit,
            room=_room(setup.hardware_class),
        )
        # Celery warns of workers that run as root for the sake of pickle; only JSON is accepted here.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        app = make_app(setup.broker, setup.changes)
        app.task(name=TASK_NAME, shared=False)(self._try)
        keeper = self._keeper(ledger, worker_id)
        connected: list[tuple[Any, Any]] = [
            (signals.worker_process_init, lambda **_: ledger.engine.dispose(close=False)),
            (signals.worker_process_shutdown, lambda **_: self._end_child()),
            (signals.task_failure, lambda **_: keeper.reap_soon()),
            (signals.worker_ready, lambda sender, **_: setup.on_ready and setup.on_ready(sender)),
        ]
        for one, receiver in connected:
            one.connect(receiver, weak=False)
        self._pool = worker = app.Worker(
            hostname=f"{worker_id}@{setup.host_name}",
            pool="prefork",
            concurrency=setup.slots,
            queues=list(setup.queues),
            loglevel="WARNING",
            quiet=True,
            **worker_arguments(task_events=setup.task_events),
        )
        self._guard.before_fork = ledger.close
        keeper.start()
        try:
            worker.start()
        finally:
            keeper.stop()
            self._guard.before_fork = _nothing
            for one, receiver in connected:
                one.disconnect(receiver)
        return int(worker.exitcode or 0)

    def _keeper(self, ledger: Ledger, worker_id: str) -> Keeper:
        setup = self._setup
        around = Surroundings(
            children=self._children,
            tidy=setup.tidy,
            on_drain=self._drain,
            quiet=self._guard.held,
        )
        publisher = Publisher(setup.broker, margin_s=setup.times.margin_s)
        callbacks = replace(setup.reaper(ledger), certify=None, progress=None)
        return Keeper(ledger, publisher, callbacks, setup.times, worker_id, around)

    def _children(self) -> int:
        """Processes of the pool that are really there: it may answer while they are all gone."""
        # Celery makes its pool, and the processes in it, after the keeper's first beats.
        processes = getattr(getattr(getattr(self._pool, "pool", None), "_pool", None), "_pool", None)
        return sum(owners.is_running(one.pid) for one in processes or ())

    def _leave(self, ledger: Ledger, worker_id: str) -> None:
        try:
            hosts.leave(ledger, worker_id)
        except SQLAlchemyError as error:
            _logger.warning("not signed off: %s", str(error).partition("\n")[0])

    def _try(self, slot: str, generation: int) -> None:
        """The body of the task, in a child."""
        try:
            self._own_child().work(slot, generation)
        except SQLAlchemyError as error:
            # Nothing was claimed, or the end could not be recorded: sweeper and reaper see to both.
            _logger.warning("slot %s is left to others: %s", slot, str(error).partition("\n")[0])

    def _own_child(self) -> Child:
        pid = os.getpid()
        if self._child is None or self._child[0] != pid:
            if self._child_setup is None:
                raise RuntimeError("a task outside of a worker")
            self._child = (pid, Child(self._child_setup))
        return self._child[1]

    def _end_child(self) -> None:
        if self._child is not None and self._child[0] == os.getpid():
            self._child[1].close()

    def _say_unfit(self, why: str) -> None:
        """In a child: ask the worker to end in good order; a service manager or a person starts it again."""
        _logger.error("this host takes no more tries: %s", why)
        os.kill(self._main_pid, signal.SIGTERM)

    def _drain(self) -> None:
        """The host is draining: stop consuming, let running tries end, exit."""
        if not self._unfit.is_set():
            self._unfit.set()
            os.kill(self._main_pid, signal.SIGTERM)
