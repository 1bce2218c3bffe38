"""What keeps campaigns going, in every process: dispatcher, sweeper, reaper and closer in one thread.

None of them is a singleton, and none runs as a message in the queue it heals. Every step is a conditional
update, so any number of keepers may do the same at once (reference/distribution.md 4.4); a step that fails
because database or broker are away is tried again at its next turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from orchestrator.engine.base import Callbacks, Refused
from orchestrator.engine.celery.broker import Publisher
from orchestrator.engine.celery.times import Times
from orchestrator.engine.takeover import LeaseWatch, take_over
from orchestrator.errors import AssizeError
from orchestrator.ledger import hosts, window
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message
from orchestrator.ledger.transitions import close, stop_at_cap

_logger = logging.getLogger(__name__)
_STOP_WITHIN_S: Final = 30


def _nobody() -> int:
    return 0


def _nothing() -> None:
    """Nobody minds."""


@dataclass(frozen=True)
class Surroundings:
    """What a keeper needs of the process it lives in.

    - `children`: how many processes of the pool are there now.
    - `tidy`: removes what dead attempts of this host left; asked every `tidy_ms` and after every take-over.
    - `on_drain`: called at every beat while the host is draining.
    - `quiet`: no fork happens inside of it; every step is in it from its first to its last call.
    """

    children: Callable[[], int] = _nobody
    tidy: Callable[[], None] = _nothing
    on_drain: Callable[[], None] = _nothing
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass
class _Due:
    """When each kind of work is to be done next, on the monotonic clock."""

    at: dict[str, float] = field(default_factory=dict)

    def take(self, name: str, every_ms: int) -> bool:
        now = time.monotonic()
        if now < self.at.get(name, 0.0):
            return False
        self.at[name] = now + every_ms / 1000
        return True

    def hurry(self, name: str) -> None:
        self.at[name] = 0.0

    def wait_s(self) -> float:
        return max(0.0, min(self.at.values(), default=0.0) - time.monotonic())


class Keeper:
    """One per process; `start` and `stop` its thread, or call `turn` for all that is due now."""

    def __init__(
        self,
        ledger: Ledger,
        publisher: Publisher,
        callbacks: Callbacks,
        times: Times,
        worker_id: str,
        around: Surroundings | None = None,
    ) -> None:
        self._ledger = ledger
        self._publisher = publisher
        self._callbacks = callbacks
        self._times = times
        self._worker_id = worker_id
        self._around = around or Surroundings()
        self._watch = LeaseWatch(times.lease_ms, everybody=True)
        self._due = _Due()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._swept = self._reaped = False

    def start(self) -> None:
        """Begin to keep, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="assize-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it is doing now."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_STOP_WITHIN_S)
        self._publisher.close()

    def reap_soon(self) -> None:
        """Somebody saw a child die: do not wait for the next turn. Safe in a signal handler."""
        self._due.hurry("reap")
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.turn()
            self._wake.wait(self._due.wait_s())
            self._wake.clear()

    def turn(self) -> None:
        """Do everything that is due."""
        times = self._times
        steps: Sequence[tuple[str, int, Callable[[], None]]] = (
            ("reap", times.reap_ms, self._reap),
            ("dispatch", times.dispatch_ms, self._dispatch),
            ("sweep", max(1, times.sweep_ms // 2), self._sweep),
            ("beat", times.beat_ms, self._beat),
            ("tidy", times.tidy_ms, self._around.tidy),
        )
        for name, every_ms, step in steps:
            if self._due.take(name, every_ms) and not self._stopping.is_set():
                with self._enduring(name), self._around.quiet():
                    step()

    @contextmanager
    def _enduring(self, name: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            _logger.warning("%s: the database does not answer: %s", name, str(error).partition("\n")[0])
        except AssizeError as error:
            _logger.warning("%s: %s", name, error.message)
        except Exception:
            # This thread keeps every campaign going: whatever fails once must not end it.
            _logger.exception("%s failed", name)

    def _reap(self) -> None:
        found = take_over(self._ledger, self._callbacks, self._watch, who=self._worker_id)
        hosts.bury(self._ledger)
        self._reaped = True
        # Refused: its worker came back meanwhile, or another keeper was first.
        lost = [one for one in found if not isinstance(one, Refused)]
        if lost:
            _logger.warning("%d attempts without a worker were taken over", len(lost))
            self._due.hurry("tidy")
            self._due.hurry("dispatch")

    def _dispatch(self) -> None:
        messages = window.unsent(self._ledger)
        times = self._times
        room = hosts.capacity(self._ledger, beat_ms=times.beat_ms, per_slot=times.window_per_slot)
        messages += window.fill(self._ledger, room, who=self._worker_id)
        for screening_id in window.unaffordable(self._ledger):
            stop_at_cap(self._ledger, screening_id, who=self._worker_id)
        for screening_id in window.finished(self._ledger):
            close(self._ledger, screening_id, who=self._worker_id)
        self._send(messages)

    def _sweep(self) -> None:
        expected = window.expected(self._ledger)
        lengths = self._publisher.lengths(expected)
        if lengths is None:
            return
        short = {queue for queue, count in expected.items() if lengths[queue] < count}
        messages = window.overdue(self._ledger, short, older_ms=self._times.sweep_ms)
        if messages:
            _logger.warning("%d messages were lost and are sent again", len(messages))
        self._send(messages)
        self._swept = True

    def _send(self, messages: Sequence[Message]) -> None:
        if messages:
            self._publisher.publish(messages)

    def _beat(self) -> None:
        draining = hosts.present_beat(
            self._ledger,
            self._worker_id,
            children=self._around.children(),
            swept=self._swept,
            reaped=self._reaped,
        )
        self._swept = self._reaped = False
        if draining:
            self._around.on_drain()
