"""Keeps one attempt from filling the host's disk: looked at while it runs, at no cost while nothing happens.

The writable layer of a container has no limit of its own on most hosts (reference/sandbox.md 1.3). What is
free on the engine's disk is asked from the system twenty times a second, and up to five hundred times near
the limit (one system call). Only when much of it has gone since the container was last measured, it is
measured again, so that nobody pays for what a neighbour wrote. What has gone is added up from look to look,
and what comes back is no part of it: a neighbour's sandbox that is removed would hide as much as it held. One
that deletes all the time hides some between two looks, so where the measurement is cheap it is made now and
then in any case. `workers.sandbox.guard` holds the container still meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LIMIT_BYTES: Final = 10 << 30
LIMIT_FILES: Final = 250_000
EVERY_S: Final = 0.05
_SOONEST_S: Final = 0.002
_FAST_BYTES_S: Final = 16 << 30
"""Several times faster than disks are: what is left is looked at often before it can be gone."""
ANYWAY_S: Final = 2.0
_PACE_BYTES_S: Final = 8 << 30
"""Faster than disks are: in any case it is measured again before half of what is left can be written."""
_QUIET_REST: Final = 10
"""After a measurement in any case, this many times as long without one, unless much goes on."""
_SIGN: Final = 2
"""A measurement is due when this part of what may still be written has gone from the disk."""
_LEAST: Final = 16
_LEAST_BYTES: Final = 16 << 20
"""No finer than the lesser of this part of the limit and these bytes: near it, a neighbour would have
everybody measured all the time. Not the part alone: what a crowd passes the limit by would grow with it."""
_REST: Final = 3
"""After a measurement, this many times as long without one, unless all that was left goes meanwhile."""


@dataclass(frozen=True)
class Free:
    """Bytes and files that can still be made on a disk."""

    bytes: int
    files: int


class Due(StrEnum):
    """Why the container is to be measured now."""

    SIGN = "sign"
    """The disk lost so much that it may be this container's."""
    ANYWAY = "anyway"
    """It was not measured for a while."""


def free_on(folder: str) -> Free | None:
    """What the system says about the disk of `folder`; None where it cannot be asked."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Free(found.f_bavail * found.f_frsize, found.f_favail)


class DiskWatch:
    """`due()` says that the container is to be measured, `measure()` whether it holds more than its limits.

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
        anyway_s: float | None = None,
    ) -> None:
        self._free = free
        self._written_bytes = written_bytes
        self._too_many_files = too_many_files
        self._limit_bytes = limit_bytes
        self._limit_files = limit_files
        self._last = free()
        self._gone_bytes = self._gone_files = 0
        self._left_bytes = limit_bytes
        self._sign_bytes = limit_bytes // _SIGN
        self._sign_files = limit_files
        self._rest_until = 0.0
        self._anyway_s = anyway_s
        self._anyway_at = time.monotonic() + self._anyway_in(0.0)

    def due(self) -> Due | None:
        """Cheap enough for every look: one system call."""
        if self._note_free():
            if time.monotonic() < self._rest_until:
                most = max(self._left_bytes, self._limit_bytes // _LEAST)
                urgent = self._gone_bytes >= most or self._gone_files >= self._limit_files
                return Due.SIGN if urgent else None
            if self._gone_bytes >= self._sign_bytes or self._gone_files >= self._sign_files:
                return Due.SIGN
        return Due.ANYWAY if time.monotonic() >= self._anyway_at else None

    def _note_free(self) -> bool:
        """Add up what has gone since the last look; False where the disk cannot be asked."""
        before, now = self._last, self._free() if self._last is not None else None
        if before is None or now is None:
            return False
        self._gone_bytes += max(0, before.bytes - now.bytes)
        self._gone_files += max(0, before.files - now.files)
        self._last = now
        return True

    def pause_s(self) -> float:
        """How long until the next look: the less may still be written, the sooner."""
        return min(EVERY_S, max(_SOONEST_S, self._left_bytes / _FAST_BYTES_S))

    def measure(self) -> bool:
        """Whether it holds more than it may; raises `EngineCallError` when a measurement fails.

        What an innocent still may write decides when it is measured again: it cannot pass its limit
        before the disk has lost that much.
        """
        started, asked = time.monotonic(), self._note_free()
        written, before = self._written_bytes(), self._limit_bytes - self._left_bytes
        over = written > self._limit_bytes or (self._asks_for_files(asked) and self._too_many_files())
        self._gone_bytes = self._gone_files = 0
        self._left_bytes = max(0, self._limit_bytes - written)
        self._sign_bytes = max(self._left_bytes // _SIGN, min(self._limit_bytes // _LEAST, _LEAST_BYTES))
        self._sign_files = max(1, self._limit_files // _SIGN)
        took_s = time.monotonic() - started
        self._rest_until = time.monotonic() + _REST * took_s
        is_busy = written - before >= self._limit_bytes // _LEAST
        self._anyway_at = time.monotonic() + self._anyway_in(took_s if is_busy else _QUIET_REST * took_s)
        return over

    def _anyway_in(self, least_s: float) -> float:
        """When to measure whatever the disk says: what a neighbour deletes hides what is written."""
        if self._anyway_s is None:
            return float("inf")
        return max(min(self._anyway_s, self._left_bytes / _PACE_BYTES_S), least_s)

    def _asks_for_files(self, asked: bool) -> bool:
        """Where counting them is dear, only when many have gone."""
        return self._anyway_s is not None or not asked or self._gone_files >= self._sign_files
