"""One at a time: a lock that the kernel lets go of when its process dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from orchestrator.custody.errors import CustodyError

WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.02


@contextmanager
def locked(folder: Path, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of an existing folder; the writer of a log holds that of its log's folder.

    Raises `CustodyError` when another process keeps it for too long.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        until = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise CustodyError(
                        f"another process works in {folder}", hint="let it end, then try again"
                    ) from None
                time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)
