"""Looks at the disk in a thread of its own while an agent runs, and holds the agent still while it measures.

The reader of a command's output waits for the engine now and then, and a fast disk takes gigabytes in that
time. So the looks are made beside it. At the first sign the container is frozen, measured, and then either
killed or let go on: between sign and end nothing is written but what a system call had begun.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Protocol, Self

from workers.errors import WorkerError
from workers.sandbox.disk import DiskWatch, Due
from workers.sandbox.priority import favour_guard

_SETTLE_S: Final = 2.0
_AGAIN_S: Final = 0.002
_UP_WAIT_S: Final = 5.0


class Hold(Protocol):
    """Keeps one container still."""

    def mark(self) -> None:
        """A command is about to be started."""

    def begun(self) -> bool:
        """Whether the host shows a process of the command since then; False where it cannot be told."""

    def begin(self) -> None:
        """Ask for it; raises `WorkerError` when it cannot be had."""

    def settled(self) -> bool:
        """Whether everything stands still."""

    def let_go(self) -> None:
        """Let it go on."""

    def convict(self) -> None:
        """End everything of the agent's in it."""


class Guard(Protocol):
    """What runs commands in a guarded container knows of its guard."""

    def over(self) -> bool:
        """Whether the container held more than it may; raises the `WorkerError` of a failed measurement."""

    def command(self, is_up: Callable[[], bool]) -> AbstractContextManager[None]:
        """Around one command: none is started in a frozen container, which the engine would refuse.

        `is_up` asks the engine whether the command has begun (or is over already).
        """


class DiskGuard:
    """Watches from `with` to its end; `over()` is true once the container held more than it may.

    After that nothing of the agent runs any more in it.
    """

    def __init__(self, watch: DiskWatch, hold: Hold) -> None:
        self._watch = watch
        self._hold = hold
        self._gate = threading.Lock()
        self._is_up: Callable[[], bool] | None = None
        self._over = False
        self._error: WorkerError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self.stand, name="disk-guard", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._thread.join()

    def end(self) -> None:
        """Look no more; what is held still is let go first."""
        self._ending.set()

    def stand(self) -> None:
        """Look, in the thread that calls, until the `end` or a conviction."""
        favour_guard(threading.get_native_id())
        while not self._ending.wait(self._watch.pause_s()):
            try:
                due = self._watch.due()
                if due is not None and self._look(due):
                    return
            except WorkerError as error:
                self._error = error
                return

    def over(self) -> bool:
        """See `Guard`; costs nothing."""
        if self._error is not None:
            raise self._error
        return self._over

    @contextlib.contextmanager
    def command(self, is_up: Callable[[], bool]) -> Iterator[None]:
        """See `Guard`."""
        with self._gate:
            self._hold.mark()
            self._is_up = is_up
        try:
            yield
        finally:
            self._is_up = None

    def _look(self, due: Due) -> bool:
        if due is Due.ANYWAY and not self._watch.measure():
            return False
        with self._gate:
            self._await_command()
            self._hold.begin()
            try:
                self._over = self._measure()
                if self._over:
                    self._hold.convict()
            finally:
                self._hold.let_go()
        return self._over

    def _await_command(self) -> None:
        """The engine may answer late on a busy host; what holds too much has begun, whoever says so."""
        until = time.monotonic() + _UP_WAIT_S
        while (is_up := self._is_up) is not None and time.monotonic() < until:
            if self._hold.begun() or is_up():
                self._is_up = None
                return
            asked = time.monotonic()
            if self._watch.measure():
                return
            time.sleep(max(_AGAIN_S, time.monotonic() - asked))

    def _measure(self) -> bool:
        """A process in a long system call writes on until that ends: measured again until all is still."""
        until = time.monotonic() + _SETTLE_S
        while True:
            last = self._hold.settled() or time.monotonic() >= until
            if self._watch.measure():
                return True
            if last:
                return False
            time.sleep(_AGAIN_S)
