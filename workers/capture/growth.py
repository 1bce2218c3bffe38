"""Watches what a running container writes, with the means of the collector."""

from __future__ import annotations

from workers.capture.source import source_of
from workers.errors import CarryOverflowError, WorkerError
from workers.sandbox import disk
from workers.sandbox.container import Container
from workers.sandbox.station import Station


def disk_watch(station: Station, container: Container) -> disk.DiskWatch:
    """The watch over one container; its limits are those of `workers.sandbox.disk`."""
    root = station.disk_root()
    source = source_of(container, lambda paths: {})

    def too_many_files() -> bool:
        try:
            source.changes()
        except CarryOverflowError:
            return True
        except (WorkerError, OSError):  # cannot be told while it runs; it will be when it is dead
            return False
        return False

    def written_bytes() -> int:
        try:
            return container.written_bytes()
        except WorkerError:
            return 0

    return disk.DiskWatch(
        lambda: disk.free_on(root),
        written_bytes,
        too_many_files,
        limit_bytes=disk.LIMIT_BYTES,
        limit_files=disk.LIMIT_FILES,
        every_s=disk.EVERY_S,
    )
