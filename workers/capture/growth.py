"""Measures what a container writes, with the means of the collector: while it runs, and when it is dead."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from orchestrator.attempts import DiskTerms
from workers.capture.layer import OverlayLayer
from workers.capture.source import source_of
from workers.capture.weight import layer_watch
from workers.errors import CarryOverflowError, WorkerError
from workers.sandbox import disk
from workers.sandbox.container import Container
from workers.sandbox.freezer import Freezer
from workers.sandbox.guard import DiskGuard, Guard
from workers.sandbox.holds import hold_of
from workers.sandbox.lookouts import Post
from workers.sandbox.options import OWN_KERNEL
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


def disk_watch(station: Station, container: Container, terms: DiskTerms | None = None) -> disk.DiskWatch:
    """The watch over one container's own layer, up to `limits_of(terms)`."""
    root = station.disk_root()
    limit_bytes, limit_files = limits_of(terms)
    layer = OverlayLayer.of(container.created)
    if layer is not None:
        return layer_watch(layer, Freezer.of(container.id), root, limit_bytes, limit_files)
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
        limit_bytes=limit_bytes,
        limit_files=limit_files,
    )


def disk_guard(
    station: Station, container: Container, terms: DiskTerms | None = None
) -> AbstractContextManager[Guard | None]:
    """The guard over one started container in which no agent code runs yet, for `with`.

    None where the kernel itself bounds what can be written. In a process of its own where this host shows the
    container's layer and cgroup, else in a thread of this one.
    """
    if terms is not None and terms.mode != "writable":
        return nullcontext(None)
    layer, freezer = OverlayLayer.of(container.created), Freezer.of(container.id)
    if layer is not None and freezer is not None:
        runtime = str((container.created.get("HostConfig") or {}).get("Runtime"))
        post = Post(
            str(freezer.folder),
            freezer.legacy,
            layer.upper,
            station.disk_root(),
            *limits_of(terms),
            unseen=runtime in OWN_KERNEL,
        )
        posted = station.lookouts.post(post, container.ended_inside)
        if posted is not None:
            return posted
    return DiskGuard(disk_watch(station, container, terms), hold_of(container))
