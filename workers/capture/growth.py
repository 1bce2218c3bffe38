"""Measures what a container writes, with the means of the collector: while it runs, and when it is dead."""

from __future__ import annotations

from orchestrator.attempts import DiskTerms
from workers.capture.layer import OverlayLayer
from workers.capture.source import source_of
from workers.errors import CarryOverflowError, WorkerError
from workers.sandbox import disk
from workers.sandbox.container import Container
from workers.sandbox.station import Station


def written(container: Container) -> tuple[int, int] | None:
    """Bytes on the disk and files in a container's own layer; None where the layer cannot be read.

    The engine alone tells too little to convict anybody: a sparse file has the size that it says.
    """
    layer = OverlayLayer.of(container.created)
    return None if layer is None else layer.written()


def disk_watch(station: Station, container: Container, terms: DiskTerms | None = None) -> disk.DiskWatch:
    """The watch over one container; without terms the limits are those of `workers.sandbox.disk`."""
    root = station.disk_root()
    source = source_of(container, lambda paths: {})

    def too_many_files() -> bool:
        if (found := written(container)) is not None:
            return found[1] > limit_files
        try:
            source.changes()
        except CarryOverflowError:
            return True
        except (WorkerError, OSError):  # cannot be told while it runs; it will be when it is dead
            return False
        return False

    def written_bytes() -> int:
        if (found := written(container)) is not None:
            return found[0]
        try:
            return container.written_bytes()
        except WorkerError:
            return 0

    limit_bytes = disk.LIMIT_BYTES if terms is None else min(terms.bytes, disk.LIMIT_BYTES)
    limit_files = disk.LIMIT_FILES if terms is None else min(terms.files, disk.LIMIT_FILES)

    return disk.DiskWatch(
        lambda: disk.free_on(root),
        written_bytes,
        too_many_files,
        limit_bytes=limit_bytes,
        limit_files=limit_files,
        every_s=disk.EVERY_S,
        anyway_s=None if OverlayLayer.of(container.created) is None else disk.ANYWAY_S,
    )
