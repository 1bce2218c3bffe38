"""Measures what a container writes, with the means of the collector: while it runs, and when it is dead."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, nullcontext

from orchestrator.attempts import DiskTerms
from workers.capture.layer import OverlayLayer
from workers.capture.source import source_of
from workers.capture.unlinked import device_of, unlinked_bytes
from workers.errors import CarryOverflowError, WorkerError
from workers.sandbox import disk
from workers.sandbox.container import Container
from workers.sandbox.freezer import Freezer
from workers.sandbox.guard import DiskGuard
from workers.sandbox.holds import hold_of
from workers.sandbox.station import Station


def written(container: Container) -> tuple[int, int] | None:
    """Bytes on the disk and files in a container's own layer; None where the layer cannot be read.

    The engine alone tells too little to convict anybody: a sparse file has the size that it says.
    """
    layer = OverlayLayer.of(container.created)
    return None if layer is None else layer.written()


def limits_of(terms: DiskTerms | None) -> tuple[int, int]:
    """Bytes and files that a container may hold; without terms those of `workers.sandbox.disk`."""
    if terms is None:
        return disk.LIMIT_BYTES, disk.LIMIT_FILES
    return min(terms.bytes, disk.LIMIT_BYTES), min(terms.files, disk.LIMIT_FILES)


def _nameless(container: Container, root: str) -> int:
    """Bytes of files in the container that are open and have no name any more."""
    freezer = Freezer.of(container.id)
    pids: list[int] = []
    if freezer is not None:
        with contextlib.suppress(OSError):  # it ended meanwhile
            pids = freezer.pids()
    places = (root, *(f"/proc/{pid}/root" for pid in pids[:1]))
    devices = frozenset(device for path in places if (device := device_of(path)) is not None)
    return unlinked_bytes(pids, devices)


def disk_watch(station: Station, container: Container, terms: DiskTerms | None = None) -> disk.DiskWatch:
    """The watch over one container's own layer, up to `limits_of(terms)`."""
    root = station.disk_root()
    source = source_of(container, lambda paths: {})
    limit_bytes, limit_files = limits_of(terms)
    files = 0

    def too_many_files() -> bool:
        if readable:
            return files > limit_files
        try:
            source.changes()
        except CarryOverflowError:
            return True
        except (WorkerError, OSError):  # cannot be told while it runs; it will be when it is dead
            return False
        return False

    def written_bytes() -> int:
        nonlocal files
        if (found := written(container)) is not None:
            files = found[1]
            return found[0] + _nameless(container, root)
        try:
            return container.written_bytes()
        except WorkerError:
            return 0

    readable = OverlayLayer.of(container.created) is not None
    return disk.DiskWatch(
        lambda: disk.free_on(root),
        written_bytes,
        too_many_files,
        limit_bytes=limit_bytes,
        limit_files=limit_files,
        anyway_s=disk.ANYWAY_S if readable else None,
    )


def disk_guard(
    station: Station, container: Container, terms: DiskTerms | None = None
) -> AbstractContextManager[DiskGuard | None]:
    """The guard over one started container in which no agent code runs yet, for `with`.

    None where the kernel itself bounds what can be written.
    """
    if terms is not None and terms.mode != "writable":
        return nullcontext(None)
    return DiskGuard(disk_watch(station, container, terms), hold_of(container))
