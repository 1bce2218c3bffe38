"""The few file operations that a log writer needs, each one durable where it says so.

All of them go through one object, so that a test can stop the writer before, after or in the middle of
any of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

PARALLEL_SYNCS: Final = 8
MAX_OPEN: Final = 256


class Disk:
    """Writes, syncs, renames and removes files. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._written: list[int] = []

    def make_folder(self, path: str) -> None:
        """Create one folder whose parent exists; it may exist."""
        os.makedirs(path, exist_ok=True)

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file; a crash may leave any part of it until `settle`."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._written.append(descriptor)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if len(self._written) >= MAX_OPEN:
            self.settle()

    def settle(self) -> None:
        """Make durable what was written."""
        try:
            self._each(self._written)
        finally:
            self.abandon()

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Make the names in folders durable."""
        opened: list[int] = []
        try:
            for path in paths:
                opened.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._each(opened)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _each(self, descriptors: list[int]) -> None:
        """Sync many at once: a file system commits all waiting calls together."""
        if len(descriptors) < PARALLEL_SYNCS:
            _sync_all(descriptors)
            return
        shares = [descriptors[at::PARALLEL_SYNCS] for at in range(PARALLEL_SYNCS)]
        with ThreadPoolExecutor(PARALLEL_SYNCS) as pool:
            for _ in pool.map(_sync_all, shares):
                pass

    def abandon(self) -> None:
        """Close what is open without waiting for it."""
        while self._written:
            os.close(self._written.pop())

    def replace(self, source: str, target: str) -> None:
        """Rename over `target`, all or nothing."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty."""
        if os.path.isdir(path):
            os.rmdir(path)
        else:
            os.unlink(path)

    def publish(self, path: str, data: bytes) -> None:
        """Replace a whole file durably: never half of it, never lost once this returns."""
        self.write(path + ".new", data)
        self.settle()
        self.replace(path + ".new", path)
        self.sync_folders([os.path.dirname(path)])


def _sync_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.fsync(descriptor)
