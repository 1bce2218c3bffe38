"""Keeps one attempt from filling the host's disk: looked at while it runs, at no cost while nothing happens.

The writable layer of a container has no limit of its own on most hosts (reference/sandbox.md 1.3). What is
free on the engine's disk is asked from the system five times a second (one system call); only when much of
it has gone since the attempt began is the container itself measured, so that nobody pays for what a
neighbour wrote. Where the measurement is cheap it is made now and then in any case: a neighbour that deletes
what an agent writes would hide it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LIMIT_BYTES: Final = 10 << 30
LIMIT_FILES: Final = 250_000
EVERY_S: Final = 0.2
ANYWAY_S: Final = 2.0


@dataclass(frozen=True)
class Free:
    """Bytes and files that can still be made on a disk."""

    bytes: int
    files: int


def free_on(folder: str) -> Free | None:
    """What the system says about the disk of `folder`; None where it cannot be asked."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Free(found.f_bavail * found.f_frsize, found.f_favail)


class DiskWatch:
    """`over()` is true once the container itself holds more than its limits.

    `free` is the disk's state; `written_bytes` and `too_many_files` measure the container and may be slow.
    With `anyway_s` they are asked that often whatever the disk says, and never more than a tenth of the time.
    """

    def __init__(
        self,
        free: Callable[[], Free | None],
        written_bytes: Callable[[], int],
        too_many_files: Callable[[], bool],
        *,
        limit_bytes: int = LIMIT_BYTES,
        limit_files: int = LIMIT_FILES,
        every_s: float = EVERY_S,
        anyway_s: float | None = None,
    ) -> None:
        self._free = free
        self._written_bytes = written_bytes
        self._too_many_files = too_many_files
        self._limit_bytes = limit_bytes
        self._limit_files = limit_files
        self._every_s = every_s
        self._base = free()
        self._next = time.monotonic() + every_s
        self._anyway_s = anyway_s
        self._due = float("inf") if anyway_s is None else time.monotonic() + anyway_s

    def over(self) -> bool:
        """Cheap enough for every tick; raises `EngineCallError` when a measurement fails."""
        if self._base is None or time.monotonic() < self._next:
            return False
        now = self._free()
        started = time.monotonic()
        try:
            return (now is not None and self._measure(self._base, now)) or self._anyway(started)
        finally:
            # A slow measurement makes the next one rarer.
            took_s = time.monotonic() - started
            self._next = time.monotonic() + max(self._every_s, 10 * took_s)

    def _anyway(self, now: float) -> bool:
        if self._anyway_s is None or now < self._due:
            return False
        over = self._written_bytes() > self._limit_bytes or self._too_many_files()
        self._due = time.monotonic() + max(self._anyway_s, 10 * (time.monotonic() - now))
        return over

    def _measure(self, base: Free, now: Free) -> bool:
        if base.bytes - now.bytes >= self._limit_bytes // 2:
            if self._written_bytes() > self._limit_bytes:
                return True
            self._base = base = Free(min(base.bytes, now.bytes + self._limit_bytes // 4), base.files)
        if base.files - now.files >= self._limit_files:
            if self._too_many_files():
                return True
            self._base = Free(base.bytes, now.files + self._limit_files // 2)
        return False
