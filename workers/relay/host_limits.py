"""Places and turns at a provider, shared by every relay of a host through locks on files.

A place is a file that stays locked while a call runs; the kernel gives it back whatever its relay dies of.
The turns are one file with the instant at which the next call may start, on the clock that all processes
share. Two homes, or two screenings of one home, so keep a provider's limits together. What does not see
the same folder (another mount namespace, another user) is another host to this.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from workers.relay.config import Provider
from workers.relay.errors import RelayError

LOOK_S: Final = 0.02
"""How often a call looks for a place that another relay has given back: nobody tells it."""
_TURN_S: Final = 0.001
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MINUTE_NS: Final = 60 * 10**9
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def limits_folder(parent: Path) -> Path:
    """The folder of this user's limits below `parent`, made when missing; it lasts until the next start of
    the machine, with which the clock begins anew. Raises `RelayError` when it is somebody else's.
    """
    boot = _BOOT_ID.read_text().strip()[:8]
    folder = parent / f"assize-limits-{os.geteuid()}-{boot}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise RelayError(f"{folder} is not a folder of this user alone; remove it")
    return folder


class HostLimits:
    """The places and turns of one provider, known by its address."""

    def __init__(self, shared: Path, provider: Provider) -> None:
        where = provider.socket_path or provider.address
        self._folder = shared / hashlib.sha256(where.encode()).hexdigest()[:32]
        self._places = provider.max_parallel or 0
        rate = provider.requests_per_minute
        self._gap_ns = _MINUTE_NS // rate if rate else 0
        self._order = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, then for a turn; `OSError` when the folder is unusable."""
        async with self._order:
            held = await self._free_place() if self._places else None
        try:
            if self._gap_ns:
                await self._turn()
            yield
        finally:
            if held is not None:
                os.close(held)

    async def _free_place(self) -> int:
        """The descriptor of a place that is locked for us."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        while True:
            for number in range(self._places):
                found = _locked(self._folder / f"place.{number}")
                if found is not None:
                    return found
            await asyncio.sleep(LOOK_S)

    async def _turn(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / "next"
        while (file := _locked(path)) is None:
            await asyncio.sleep(_TURN_S)
        try:
            now = time.monotonic_ns()
            start = max(now, int.from_bytes(os.pread(file, 8, 0), "little"))
            os.pwrite(file, (start + self._gap_ns).to_bytes(8, "little"), 0)
        finally:
            os.close(file)
        if start > now:
            await asyncio.sleep((start - now) / 1e9)


def _locked(path: Path) -> int | None:
    """An open, locked file; None when somebody else has the lock."""
    file = os.open(path, _OPEN, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file
