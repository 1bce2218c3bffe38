"""The folder with the sockets of one relay: made, kept and removed by its worker, or after its death.

Its name carries the worker's pid for whoever looks. Whether that worker lives is told by a lock on the
folder, which the kernel gives back whatever the worker dies of: a pid may be another process's by now, or
one of another pid namespace that shares the parent folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.relay_folders import PREFIX, left_behind, places


@contextlib.contextmanager
def socket_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder below `parent`, removed at the end; raises `OSError` when it cannot be made."""
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent or places()[0]))
    lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Only now does it get a name that `reap` looks at: nobody ever sees one of those without its lock.
        folder = made.rename(made.with_name(f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def reap(where: Iterable[Path] | None = None) -> list[Path]:
    """Remove the folders whose worker is dead; returns what was removed. What cannot be, stays."""
    removed = left_behind(places() if where is None else where)
    for found in removed:
        shutil.rmtree(found, ignore_errors=True)
    return removed
