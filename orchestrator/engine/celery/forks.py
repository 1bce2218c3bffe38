"""A thread that works beside a pool that forks: no fork while it is inside.

A child inherits every lock that another thread held at the fork, for ever. SQLite and libpq have locks of
their own; kombu takes one at every use of a lazy attribute, for all objects of a class: a child forked while
its parent sent a message stood still before its first try (1 in 160 starts on a busy machine, measured). The
keeper's steps are short, so a fork waits for the end of one; not for ever: what takes long is waiting for an
engine or an archive, and holds locks of its own client only. And no connection may be open
at that moment: what a child inherits of SQLite says that its process holds locks on the file, which the
system gave to its parent alone.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

WAIT_S: Final = 15.0
_logger = logging.getLogger(__name__)


def _nothing() -> None:
    """Nothing is to be done."""


class ForkGuard:
    """Hold it around work that must not be cut in two by a fork of this process.

    `before_fork` is called when a fork is about to happen and nobody holds it, or somebody for `wait_s`.
    """

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.RLock()
        self._locked = False
        self.before_fork: Callable[[], None] = _nothing
        os.register_at_fork(
            before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
        )

    def _before(self) -> None:
        self._locked = self._lock.acquire(timeout=self._wait_s)
        if not self._locked:
            _logger.warning("a process of the pool is born beside a step of %g s and more", self._wait_s)
        self.before_fork()

    def _after_in_parent(self) -> None:
        if self._locked:
            self._lock.release()

    def _after_in_child(self) -> None:
        self._lock = threading.RLock()
        self.before_fork = _nothing

    @contextmanager
    def held(self) -> Iterator[None]:
        """No fork in here."""
        with self._lock:
            yield
