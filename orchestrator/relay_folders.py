"""Folders with relay sockets that a dead worker left: found by its lock, which dies with it.

Workers make them (`workers.relay.sockets`) and remove those of the dead; `assize doctor` only names them.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PREFIX: Final = "assize-relay-"
_NAME: Final = re.compile(re.escape(PREFIX) + r"\d+-[0-9a-f]+")


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
