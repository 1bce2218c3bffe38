"""The two ways to hold a container still: by its cgroup on this host, or else through the engine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from workers.errors import ContainerGoneError, WorkerError
from workers.sandbox.freezer import Freezer
from workers.sandbox.guard import Hold
from workers.sandbox.proofs import RUNTIME_NAME, name_of

if TYPE_CHECKING:  # with it comes the engine's client, which a guard in a process of its own does without
    from workers.sandbox.container import Container


class FrozenHold:
    """Freezes the cgroup. What runs when it is made, PID 1 and its only child, outlives a conviction: the
    cgroup with its counters stays, and the container is ended in the usual way. On a busy machine the child
    may come later and die with the others, and PID 1 after it; `convicted` is told before.
    """

    def __init__(self, freezer: Freezer, convicted: Callable[[], None]) -> None:
        self._freezer = freezer
        self._convicted = convicted
        self._spared = self._before = self._pids()

    def _pids(self) -> frozenset[int]:
        try:
            return frozenset(self._freezer.pids())
        except OSError:  # gone already
            return frozenset()

    def mark(self) -> None:
        """See `Hold`."""
        self._before = self._pids()

    def begun(self) -> bool:
        """See `Hold`; the runtime's own process is there first, and must not be frozen."""
        return any(not name_of(pid).startswith(RUNTIME_NAME) for pid in self._pids() - self._before)

    def begin(self) -> None:
        """See `Hold`; a container that is gone is as still as it can be."""
        with contextlib.suppress(OSError):
            self._freezer.freeze()

    def settled(self) -> bool:
        """See `Hold`."""
        try:
            return self._freezer.is_frozen()
        except OSError:
            return True

    def let_go(self) -> None:
        """See `Hold`."""
        with contextlib.suppress(OSError):
            self._freezer.thaw()

    def convict(self) -> None:
        """See `Hold`; nobody forks while frozen, and what forks while freezing is seen the second time."""
        self._convicted()
        with contextlib.suppress(OSError):
            self._freezer.kill_all_but(self._spared)
            self._freezer.kill_all_but(self._spared)


class PausedHold:
    """Through the engine; a conviction ends the container."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def mark(self) -> None:
        """See `Hold`."""

    def begun(self) -> bool:
        """See `Hold`: only the engine tells."""
        return False

    def begin(self) -> None:
        """See `Hold`."""
        with contextlib.suppress(ContainerGoneError):
            self._container.pause()

    def settled(self) -> bool:
        """See `Hold`: the engine answers when it is done."""
        return True

    def let_go(self) -> None:
        """See `Hold`; what was killed meanwhile is not there to go on."""
        with contextlib.suppress(WorkerError):
            self._container.unpause()

    def convict(self) -> None:
        """See `Hold`."""
        self._container.kill()


def hold_of(container: Container) -> Hold:
    """The quickest one that this process may use, of a container in which no agent code runs yet."""
    freezer = Freezer.of(container.id)
    return PausedHold(container) if freezer is None else FrozenHold(freezer, container.ended_inside)
