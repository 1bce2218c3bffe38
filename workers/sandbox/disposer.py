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
        self._failed: list[Callable[[], None]] = []

    def submit(self, removal: Callable[[], None]) -> None:
        """Run `removal` soon; one that raises `WorkerError` is tried once more by `drain`."""
        future = self._pool.submit(self._run, removal)
        with self._lock:
            self._pending.add(future)
        future.add_done_callback(self._forget)

    def _run(self, removal: Callable[[], None]) -> None:
        try:
            removal()
        except WorkerError:
            with self._lock:
                self._failed.append(removal)

    def _forget(self, future: Future[None]) -> None:
        with self._lock:
            self._pending.discard(future)

    def drain(self) -> list[str]:
        """Wait until nothing is pending; the messages of removals that failed twice.

        The engine may have been gone for a moment, and what it kept is there again.
        """
        while True:
            with self._lock:
                pending = list(self._pending)
                if not pending:
                    failed, self._failed = self._failed, []
                    break
            for future in pending:
                future.result()
        return [message for removal in failed if (message := _failure(removal)) is not None]

    def close(self) -> list[str]:
        """Drain and end the threads."""
        failed = self.drain()
        self._pool.shutdown()
        return failed


def _failure(removal: Callable[[], None]) -> str | None:
    try:
        removal()
    except WorkerError as error:
        return str(error)
    return None
