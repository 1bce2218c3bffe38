"""Read one small folder of a stopped container of ours: regular files only, capped."""

from __future__ import annotations

import tarfile
from typing import IO, Final, cast

from workers.capture.stream import ChunkReader
from workers.errors import CarryOverflowError, ContainerGoneError
from workers.sandbox.container import Container

_MAX_FILES: Final = 200
_VERDICT_FILES: Final = ("reward.json", "reward.txt")


def read_folder(container: Container, path: str, cap_bytes: int) -> tuple[dict[str, bytes], bool]:
    """({relative name: bytes}, whether a reward file is no regular file). A missing folder is empty.

    Reading stops at the cap; what lies beyond it is not there for the verdict either.
    """
    files: dict[str, bytes] = {}
    foreign = False
    try:
        chunks = container.archive(path)
    except ContainerGoneError:
        return files, foreign
    reader = cast(IO[bytes], ChunkReader(chunks, cap_bytes))
    try:
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            for member in tar:
                name = member.name.partition("/")[2]
                if name in _VERDICT_FILES and not member.isreg():
                    foreign = True
                content = tar.extractfile(member) if member.isreg() and len(files) < _MAX_FILES else None
                if content is not None:
                    files[name] = content.read()
    except (CarryOverflowError, tarfile.TarError):
        pass
    return files, foreign
