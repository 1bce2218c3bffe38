"""Removes finished containers beside the next work, and waits for all of them at the end.

Removal costs as much as a quarter of a trivial try; nothing depends on it, and the reaper stands behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from workers.errors import WorkerError


class Disposer:
    """A small pool that runs removals; `drain` waits for them and returns what failed."""

    def __init__(self, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, "dispose")
        self._lock = threading.Lock()
        self._pending: set[Future[None]] = set()
        self._failed: list[str] = []

    def submit(self, removal: Callable[[], None]) -> None:
        """Run `removal` soon; a `WorkerError` it raises is kept for `drain`."""
        future = self._pool.submit(self._run, removal)
        with self._lock:
            self._pending.add(future)
        future.add_done_callback(self._forget)

    def _run(self, removal: Callable[[], None]) -> None:
        try:
            removal()
        except WorkerError as error:
            with self._lock:
                self._failed.append(str(error))

    def _forget(self, future: Future[None]) -> None:
        with self._lock:
            self._pending.discard(future)

    def drain(self) -> list[str]:
        """Wait until nothing is pending; the messages of failed removals."""
        while True:
            with self._lock:
                pending = list(self._pending)
                if not pending:
                    failed, self._failed = self._failed, []
                    return failed
            for future in pending:
                future.result()

    def close(self) -> list[str]:
        """Drain and end the threads."""
        failed = self.drain()
        self._pool.shutdown()
        return failed
