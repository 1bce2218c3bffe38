"""Folders with relay sockets that a dead worker left: found by its lock, which dies with it.

Workers make them (`workers.relay.sockets`) and remove those of the dead; `assize doctor` only names them.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

VARIABLE: Final = "ASSIZE_SOCKET_FOLDER"
"""For a worker in a container: a folder that the engine's host has under the same path, as the engine mounts
the sockets from there."""
PREFIX: Final = "assize-relay-"
_RUN: Final = Path("/run")
_NAME: Final = re.compile(re.escape(PREFIX) + r"\d+-[0-9a-f]+")


def places() -> tuple[Path, ...]:
    """Where such folders may lie, the best first: an address of a Unix socket has at most 107 bytes."""
    if named := os.environ.get(VARIABLE):
        return (Path(named),)
    temporary = Path(tempfile.gettempdir())
    return (_RUN, temporary) if os.access(_RUN, os.W_OK) else (temporary,)


def left_behind(parents: Iterable[Path]) -> list[Path]:
    """Folders below `parents` whose worker is dead; what cannot be looked at is somebody else's."""
    return [
        found
        for parent in parents
        for found in sorted(parent.glob(f"{PREFIX}*"))
        if _NAME.fullmatch(found.name) and _abandoned(found)
    ]


def _abandoned(folder: Path) -> bool:
    """Whether nobody holds the lock that a living worker has on its folder; links are not followed."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
