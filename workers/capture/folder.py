"""Read one small folder of a stopped container of ours: regular files only, capped."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from workers.capture.changes import DELETED
from workers.capture.source import Source
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError, PathRefusedError

MAX_FILES: Final = 200
MAX_ENTRIES: Final = 20_000
VERDICT_FILES: Final = ("reward.json", "reward.txt", "checks.json")
LEFT_BYTES: Final = 4 << 20
MAX_LEFT_FILES: Final = 50


def left_in(source: Source, path: str, changes: Iterable[tuple[int, str]]) -> dict[str, bytes]:
    """What was put below the folder `path`, by relative name: regular files, at most `MAX_LEFT_FILES` in
    order of their names and `LEFT_BYTES` together.

    Where `changes` (of `Source.changes`) name nothing there, nothing is read.
    """
    inside = f"{path}/"
    if not any(kind != DELETED and changed.startswith(inside) for kind, changed in changes):
        return {}
    files, _ = read_folder(source, path, LEFT_BYTES, always=())
    return dict(sorted(files.items())[:MAX_LEFT_FILES])


def read_folder(
    source: Source, path: str, cap_bytes: int, always: tuple[str, ...] = VERDICT_FILES
) -> tuple[dict[str, bytes], bool]:
    """({relative name: bytes}, whether a file of `always` is no regular file). A missing folder is empty.

    Files beyond the cap, or beyond `MAX_FILES`, are left out; those of `always` (the verdict) are read in
    any case, and left out all together when the folder cannot be read to its end: what was not seen may
    contradict them.
    """
    files: dict[str, bytes] = {}
    foreign, left, entries = False, cap_bytes, 0
    try:
        with closing(source.members(path, cap_bytes)) as members:
            for member in members:
                entries += 1
                if entries > MAX_ENTRIES:
                    raise CarryOverflowError(f"more than {MAX_ENTRIES} entries")
                name = posixpath.relpath(member.path, path)
                wanted = name in always
                foreign = foreign or (wanted and not member.info.isreg())
                if member.content is None or not (wanted or len(files) < MAX_FILES):
                    continue
                if member.info.size <= left or wanted:
                    files[name] = member.content.read(min(member.info.size, cap_bytes))
                    left -= len(files[name])
    except (CarryOverflowError, ArchiveFormError, tarfile.TarError, OSError):
        return {name: data for name, data in files.items() if name not in always}, foreign
    except (ContainerGoneError, PathRefusedError):
        return files, foreign
    return files, foreign
