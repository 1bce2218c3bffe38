"""The engine of one machine: a pool of threads over the slot table, without a broker.

Threads are enough because the container is the isolation. What a person does to it:

- first interrupt: nothing new is started, running attempts end and are recorded;
- second: running attempts are told to stop; their slots go back to the queue, so that the same command
  runs them again, without a platform fault (see `orchestrator.ledger.states.interruption`);
- third: `RunAbortedError` at once; the attempts are given up in the ledger, what they left running is removed
  by the sweep of the next start.

After `kill -9` the next run on this host sees that the owner is dead and takes its attempts over.
"""

from __future__ import annotations

import logging
import queue as queues
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.engine.base import (
    Callbacks,
    Cancelling,
    Closed,
    Drained,
    Draining,
    Ended,
    PhaseEntered,
    Planned,
    Progress,
    Resumed,
    RunResult,
    Settings,
    Started,
    Stop,
    Voided,
)
from orchestrator.engine.breaker import Breaker
from orchestrator.engine.control import Control
from orchestrator.engine.dispatcher import Dispatcher
from orchestrator.engine.errors import HostUnfitError, RunAbortedError
from orchestrator.engine.runner import Result, run_attempt
from orchestrator.engine.takeover import LeaseWatch, take_over
from orchestrator.errors import UsageError
from orchestrator.ledger import owners, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import ScreeningState, SlotState
from orchestrator.ledger.transitions import Claim, beat, claims_of, close, start, stop_attempt

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Interrupted:
    """Message: the operator pressed Ctrl-C once more."""


@dataclass(frozen=True)
class _Tick:
    """Message: a heartbeat has been written."""


@dataclass(frozen=True)
class _WorkerDone:
    """Message: a worker thread has ended, by an error of the ledger if there is one."""

    error: BaseException | None


_Message = Progress | _Interrupted | _Tick | _WorkerDone


class LocalEngine:
    """`Engine` over threads of this process; one `run` at a time."""

    def __init__(
        self, ledger: Ledger, callbacks: Callbacks, settings: Settings | None = None, *, who: str = "operator"
    ) -> None:
        self._ledger = ledger
        self._callbacks = callbacks
        self._settings = settings or Settings()
        self._who = who
        # SimpleQueue.put may be called from a signal handler, whatever the main thread is doing.
        self._inbox: queues.SimpleQueue[_Message] = queues.SimpleQueue()
        self._live: dict[str, Control] = {}
        self._interrupts = 0
        self._failure: BaseException | None = None
        self._attempts = 0
        self._breaker = Breaker()

    def interrupt(self) -> None:
        """First call: drain. Second: stop running attempts. Third: leave. Safe in a signal handler."""
        self._inbox.put(_Interrupted())

    def run(self, screening_ids: Sequence[str], parallel: int) -> RunResult:
        """Run every open slot of the screenings, at most `parallel` at a time, sharing fairly.

        Returns when no slot is open, when everything left is paused, or after an interrupt has drained.
        Raises `RunAbortedError` on the third interrupt, and whatever a callback or the ledger raised once
        the attempts that were running have ended.
        """
        if parallel < 1:
            raise UsageError(f"{parallel} parallel tries: at least one is needed")
        self._interrupts, self._failure, self._attempts = 0, None, 0
        self._live, self._inbox, self._breaker = {}, queues.SimpleQueue(), Breaker()
        owner = owners.register(self._ledger)
        watch = LeaseWatch(self._settings.lease_ms)
        dispatcher = Dispatcher(
            self._ledger, owner.id, screening_ids, self._settings, parallel, waits=self._inbox.put
        )
        try:
            self._open(screening_ids, take_over(self._ledger, self._callbacks, watch, who=owner.id))
            self._certify_backlog(screening_ids)
            with self._heart(owner.id):
                self._serve(dispatcher, watch, owner.id, parallel)
            if self._failure is not None:
                raise self._failure
            if self._interrupts:
                left = sum(queries.status(self._ledger, one).open for one in screening_ids)
                self._emit(Drained(left))
            states = self._close(screening_ids)
        finally:
            owners.retire(self._ledger, owner)
        return RunResult(states, bool(self._interrupts), self._attempts)

    def _open(self, screening_ids: Sequence[str], taken: Sequence[Result]) -> None:
        for screening_id in screening_ids:
            state = queries.screening(self._ledger, screening_id)["state"]
            if state == ScreeningState.PLANNED and start(self._ledger, screening_id, who=self._who):
                view = queries.status(self._ledger, screening_id)
                self._emit(Planned(screening_id, view.total))
                continue
            view = queries.status(self._ledger, screening_id)
            resumed = Resumed(
                screening_id=screening_id,
                recorded=view.slots[SlotState.RECORDED],
                uncountable=view.slots[SlotState.UNCOUNTABLE],
                lost=sum(one.claim.screening_id == screening_id for one in taken),
                to_go=view.open,
                used_nusd=view.used_nusd,
                cap_nusd=view.cap_nusd,
            )
            self._emit(resumed)
        for one in taken:
            self._emit(one)

    def _close(self, screening_ids: Sequence[str]) -> dict[str, str]:
        self._certify_backlog(screening_ids)
        states: dict[str, str] = {}
        for screening_id in screening_ids:
            before = queries.screening(self._ledger, screening_id)["state"]
            states[screening_id] = close(self._ledger, screening_id, who=self._who) or before
            if states[screening_id] != before:
                self._emit(Closed(screening_id, states[screening_id]))
        return states

    def _certify_backlog(self, screening_ids: Sequence[str]) -> None:
        if self._callbacks.certify is not None:
            for attempt_id in queries.certifiable(self._ledger, screening_ids):
                self._callbacks.certify(attempt_id)

    def _emit(self, event: Progress) -> None:
        if self._callbacks.progress is not None:
            self._callbacks.progress(event)

    def _serve(self, dispatcher: Dispatcher, watch: LeaseWatch, owner_id: str, parallel: int) -> None:
        """Start the workers and handle their messages in this thread until all of them have ended."""
        while not self._inbox.empty():
            # An interrupt that came while the run was being prepared: nothing is to be started at all.
            if isinstance(self._inbox.get(), _Interrupted):
                self._on_interrupt(dispatcher, owner_id)
        for number in range(parallel):
            name = f"assize-worker-{number}"
            threading.Thread(target=self._work, args=(dispatcher,), name=name, daemon=True).start()
        alive = parallel
        while alive:
            try:
                message = self._inbox.get()
                if isinstance(message, _WorkerDone):
                    alive -= 1
                    if message.error is not None:
                        self._fail(message.error, dispatcher)
                elif isinstance(message, _Interrupted):
                    self._on_interrupt(dispatcher, owner_id)
                elif isinstance(message, _Tick):
                    self._on_tick(dispatcher, watch, owner_id)
                else:
                    self._on_progress(message)
                    self._judge_host(message, dispatcher)
            except RunAbortedError:
                raise
            except KeyboardInterrupt:
                self.interrupt()
            except Exception as error:
                _logger.debug("draining after a failure", exc_info=True)
                self._fail(error, dispatcher)

    def _judge_host(self, event: Progress, dispatcher: Dispatcher) -> None:
        """A host that fails every attempt must not burn the re-runs of a whole screening."""
        if not isinstance(event, (Ended, Voided)) or event.outcome is None:
            return
        if self._breaker.note(event.claim.slot_id, event.reason) and self._failure is None:
            error = HostUnfitError(
                f"many tries in a row ended by a fault of this host ({event.reason}); no more are started",
                hint="`assize doctor` shows what is wrong; the same command resumes",
            )
            self._fail(error, dispatcher)

    def _fail(self, error: BaseException, dispatcher: Dispatcher) -> None:
        """Paid attempts are running: let them end, start nothing new, then raise the first failure."""
        self._failure = self._failure or error
        dispatcher.stop()

    def _on_progress(self, event: Progress) -> None:
        self._emit(event)
        if isinstance(event, (Ended, Voided)):
            self._attempts += 1
            if event.outcome is not None and self._failure is None and self._callbacks.certify is not None:
                self._callbacks.certify(event.claim.attempt_id)

    def _on_tick(self, dispatcher: Dispatcher, watch: LeaseWatch, owner_id: str) -> None:
        if self._interrupts == 0 and self._failure is None:
            for one in self._taken_over(watch, owner_id):
                self._on_progress(one)
        dispatcher.look_again()

    def _taken_over(self, watch: LeaseWatch, owner_id: str) -> Sequence[Result]:
        try:
            return take_over(self._ledger, self._callbacks, watch, who=owner_id)
        except SQLAlchemyError as error:
            # The database went away after the beat. Paid attempts are running, and the next beat looks again.
            _logger.warning("nothing was taken over: %s", error)
            return ()

    def _on_interrupt(self, dispatcher: Dispatcher, owner_id: str) -> None:
        self._interrupts += 1
        dispatcher.stop()
        running = list(self._live.values())
        if self._interrupts == 1:
            self._emit(Draining(len(running)))
        elif self._interrupts == 2:
            for control in running:
                control.stop(Stop.OPERATOR)
            self._emit(Cancelling(len(running)))
        else:
            given_up = claims_of(self._ledger, [owner_id])
            for held in given_up:
                stop_attempt(self._ledger, held, who=self._who, nusd=self._callbacks.metered(held))
            raise RunAbortedError(
                f"left at once; {len(given_up)} running tries were given up",
                hint="run the same command again: it resumes, and removes what they left",
            )

    def _work(self, dispatcher: Dispatcher) -> None:
        """A worker thread: claim, run, record, until there is nothing to do."""
        error: BaseException | None = None
        try:
            self._callbacks.admit()
            while (held := dispatcher.next_claim()) is not None:
                self._one(held, dispatcher)
                self._callbacks.admit()
        except BaseException as failure:
            # Whatever ended this thread must reach the thread that waits for it.
            _logger.debug("worker ended by an error", exc_info=True)
            error = failure
        self._inbox.put(_WorkerDone(error))

    def _one(self, held: Claim, dispatcher: Dispatcher) -> None:
        notify = self._phase_entered if self._callbacks.progress is not None else None
        control = Control(held, notify, calls_ms=self._settings.calls_ms)
        self._live[held.attempt_id] = control
        if self._interrupts >= 2:
            # Claimed while the second interrupt was being handled: it was not among those told to stop.
            control.stop(Stop.OPERATOR)
        requeued = False
        try:
            if self._callbacks.progress is not None:
                self._inbox.put(Started(held))
            result = run_attempt(self._ledger, self._callbacks, self._settings, control)
            requeued = isinstance(result, Voided) and result.requeued
            self._inbox.put(result)
        finally:
            del self._live[held.attempt_id]
            dispatcher.ended(held, requeued=requeued)

    def _phase_entered(self, event: PhaseEntered) -> None:
        self._inbox.put(event)

    @contextmanager
    def _heart(self, owner_id: str) -> Iterator[None]:
        """Beat in a thread of its own, off the path of claims and records."""
        stopped = threading.Event()

        def pump() -> None:
            while not stopped.wait(self._settings.beat_ms / 1000):
                try:
                    self._beat(owner_id)
                except SQLAlchemyError as error:
                    # The lease outlasts several beats; the next one may get through.
                    _logger.warning("heartbeat not written: %s", error)
                    for control in list(self._live.values()):
                        control.keep_deadline()

        thread = threading.Thread(target=pump, name="assize-heart", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _beat(self, owner_id: str) -> None:
        # Taken first: an attempt that is claimed during the beat must not look like a lost one.
        controls = dict(self._live)
        phases = {attempt_id: control.current for attempt_id, control in controls.items()}
        sent = time.monotonic()
        answer = beat(self._ledger, owner_id, phases, lease_ms=self._settings.lease_ms)
        for attempt_id, control in controls.items():
            if attempt_id not in answer.live:
                control.stop(Stop.TOKEN)
                continue
            control.renewed(sent)
            if attempt_id in answer.cancelled:
                control.stop(Stop.SCREENING)
            else:
                control.keep_deadline()
        self._inbox.put(_Tick())
