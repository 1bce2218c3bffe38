"""Files that have no name any more and still fill the disk: open, or mapped, in a process of the container.

No walk over the layer finds them. They are looked up in the host's `/proc` while the container stands still.
A file whose only handle is under way in a socket is in neither list, and is not found.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PLACES: Final = ("fd", "map_files")
MOST_LOOKS: Final = 1_000_000
"""Far more handles and mappings than honest work has; ten seconds."""
BEYOND_COUNT: Final = 1 << 52
"""Bytes of whoever has more than that: what cannot be looked through is no place to hide. With what is
counted beside it, it still is a number of our canonical JSON."""


def unlinked_bytes(pids: Iterable[int], devices: frozenset[int], proc: Path = _PROC) -> int:
    """Bytes on the disk of nameless files of these processes on `devices`; each file counts once.

    `devices` are those of one disk: an open file is told with the overlay's number and a mapped one with
    the disk's own, under the same inode. `BEYOND_COUNT` for more than `MOST_LOOKS` of them: how long a
    sandbox is held still must not be up to who is in it.
    """
    found: dict[int, int] = {}
    looks = 0
    for pid in pids:
        for place in _PLACES:
            with contextlib.suppress(OSError), os.scandir(proc / str(pid) / place) as entries:
                for entry in entries:
                    looks += 1
                    if looks > MOST_LOOKS:
                        return BEYOND_COUNT
                    with contextlib.suppress(OSError):
                        status = os.stat(entry.path)
                        if status.st_nlink == 0 and status.st_dev in devices:
                            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def device_of(path: str) -> int | None:
    """The device number of what lies at `path`; None where it cannot be asked."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return None
