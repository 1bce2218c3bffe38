"""Measures what a container writes, with the means of the collector: while it runs, and when it is dead."""

from __future__ import annotations

from orchestrator.attempts import DiskTerms
from workers.capture.layer import OverlayLayer
from workers.capture.source import source_of
from workers.errors import CarryOverflowError, WorkerError
from workers.sandbox import disk
from workers.sandbox.container import Container
from workers.sandbox.station import Station


def written(container: Container) -> tuple[int, int | None] | None:
    """Bytes and files in a container's own layer; None where nobody can tell.

    The engine tells sizes only, and a sparse file's as long as it says.
    """
    layer = OverlayLayer.of(container.created)
    if layer is not None:
        return layer.written()
    try:
        return container.written_bytes(), None
    except WorkerError:
        return None


def disk_watch(station: Station, container: Container, terms: DiskTerms | None = None) -> disk.DiskWatch:
    """The watch over one container; without terms the limits are those of `workers.sandbox.disk`."""
    root = station.disk_root()
    source = source_of(container, lambda paths: {})

    def too_many_files() -> bool:
        found = written(container)
        if found is not None and found[1] is not None:
            return found[1] > limit_files
        try:
            source.changes()
        except CarryOverflowError:
            return True
        except (WorkerError, OSError):  # cannot be told while it runs; it will be when it is dead
            return False
        return False

    def written_bytes() -> int:
        found = written(container)
        return 0 if found is None else found[0]

    limit_bytes = disk.LIMIT_BYTES if terms is None else min(terms.bytes, disk.LIMIT_BYTES)
    limit_files = disk.LIMIT_FILES if terms is None else min(terms.files, disk.LIMIT_FILES)

    return disk.DiskWatch(
        lambda: disk.free_on(root),
        written_bytes,
        too_many_files,
        limit_bytes=limit_bytes,
        limit_files=limit_files,
        every_s=disk.EVERY_S,
    )
