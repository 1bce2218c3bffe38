"""Read one small folder of a stopped container of ours: regular files only, capped."""

from __future__ import annotations

import posixpath
from typing import Final

from workers.capture.source import Source
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError

_MAX_FILES: Final = 200
_VERDICT_FILES: Final = ("reward.json", "reward.txt")


def read_folder(source: Source, path: str, cap_bytes: int) -> tuple[dict[str, bytes], bool]:
    """({relative name: bytes}, whether a reward file is no regular file). A missing folder is empty.

    Reading stops at the cap; what lies beyond it is not there for the verdict either.
    """
    files: dict[str, bytes] = {}
    foreign = False
    try:
        for member in source.members(path, cap_bytes):
            name = posixpath.relpath(member.path, path)
            if name in _VERDICT_FILES and not member.info.isreg():
                foreign = True
            if member.content is not None and len(files) < _MAX_FILES:
                files[name] = member.content.read()
    except (CarryOverflowError, ContainerGoneError, ArchiveFormError):
        return files, foreign
    return files, foreign
