"""The floor of free space on this host, below which no more tries are started.

A try whose root is writable is measured while it runs and can still overshoot, and our own evidence needs
room: an agent must not be blamed for a disk that others filled (reference/sandbox.md 1.3 and 5.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from orchestrator.engine.errors import HostUnfitError

FLOOR_BYTES: Final = 1_000_000_000
FLOOR_FILES: Final = 10_000


def require_floor(folders: Iterable[Path], least_bytes: int = FLOOR_BYTES) -> None:
    """Raise `HostUnfitError` when a folder's file system has less left; one that cannot be asked passes."""
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue  # an engine elsewhere: its folder is not on this host
        free = found.f_bavail * found.f_frsize
        # Some file systems have no fixed number of files and say 0 of 0.
        few = found.f_files > 0 and found.f_favail < FLOOR_FILES
        if free < least_bytes or few:
            what = f"{free // 1_000_000} MB" if free < least_bytes else f"room for {found.f_favail} files"
            raise HostUnfitError(
                f"only {what} left at {folder}; no more tries are started",
                hint="free some space; the same command resumes",
            )
