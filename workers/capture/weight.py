"""The weight of a container whose layer this host shows, while it runs: no engine is asked."""

from __future__ import annotations

import contextlib

from workers.capture.layer import OverlayLayer
from workers.capture.unlinked import device_of, unlinked_bytes
from workers.sandbox import disk
from workers.sandbox.freezer import Freezer


def nameless(freezer: Freezer | None, root: str) -> int:
    """Bytes of files in the container that are open and have no name any more."""
    pids: list[int] = []
    if freezer is not None:
        with contextlib.suppress(OSError):  # it ended meanwhile
            pids = freezer.pids()
    places = (root, *(f"/proc/{pid}/root" for pid in pids[:1]))
    devices = frozenset(device for path in places if (device := device_of(path)) is not None)
    return unlinked_bytes(pids, devices)


def layer_watch(
    layer: OverlayLayer, freezer: Freezer | None, root: str, limit_bytes: int, limit_files: int
) -> disk.DiskWatch:
    """The watch over one layer on the disk of `root`."""
    files = 0

    def written_bytes() -> int:
        nonlocal files
        used, files = layer.written(limit_files)
        return used + nameless(freezer, root)

    return disk.DiskWatch(
        lambda: disk.free_on(root),
        written_bytes,
        lambda: files > limit_files,
        limit_bytes=limit_bytes,
        limit_files=limit_files,
        anyway_s=disk.ANYWAY_S,
    )
