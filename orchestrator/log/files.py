"""The few file operations that a log writer needs, each one durable where it says so.

All of them go through one object, so that a test can stop the writer before, after or in the middle of
any of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

PARALLEL_SYNCS: Final = 8


class Disk:
    """Writes, syncs, renames and removes files."""

    def make_folder(self, path: Path) -> None:
        """Create one folder whose parent exists."""
        path.mkdir(exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file; a crash may leave any part of it until `sync`."""
        with path.open("wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    def sync(self, paths: Iterable[Path]) -> None:
        """Make files and folders durable. A file system commits many waiting calls at once."""
        paths = list(paths)
        if len(paths) < PARALLEL_SYNCS:
            for path in paths:
                self._sync(path)
            return
        with ThreadPoolExecutor(PARALLEL_SYNCS) as pool:
            for _ in pool.map(self._sync, paths):
                pass

    def _sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over `target`, all or nothing."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file, or a folder that is empty."""
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()

    def publish(self, path: Path, data: bytes) -> None:
        """Replace a whole file durably: never half of it, never lost once this returns."""
        temporary = path.with_name(path.name + ".new")
        self.write(temporary, data)
        self.sync([temporary])
        self.replace(temporary, path)
        self.sync([path.parent])
