"""What an agent wrote about itself below its HOME: found by the globs of its profile, read with bounds.

It is an untrusted exhibit: evidence for readers, and never what anything is decided by.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from workers.capture.changes import DELETED
from workers.capture.source import Source
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError, PathRefusedError

MAX_TRANSCRIPTS: Final = 20
TRANSCRIPT_BYTES: Final = 8 << 20
"""All of them together."""


def pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression: `*` stays in one folder, `**/` stands for any number of them."""
    parts = re.split(r"(\*\*/|\*)", glob)
    known = {"**/": r"(?:[^/]+/)*", "*": r"[^/]*"}
    return re.compile("".join(known.get(part) or re.escape(part) for part in parts))


def matching(globs: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names that any glob fits, sorted, each once."""
    patterns = [pattern(glob) for glob in globs]
    return sorted({name for name in names if any(one.fullmatch(name) for one in patterns)})


def transcripts_in(
    source: Source, home: str, globs: Sequence[str], changes: Iterable[tuple[int, str]]
) -> dict[str, bytes]:
    """The fitting files below `home` by relative name: regular ones, at most `MAX_TRANSCRIPTS` in order of
    their names and `TRANSCRIPT_BYTES` together.

    Only what `changes` (of `Source.changes`) name is asked for, so that a large HOME costs nothing.
    """
    inside = f"{home}/"
    names = (
        path.removeprefix(inside) for kind, path in changes if kind != DELETED and path.startswith(inside)
    )
    found: dict[str, bytes] = {}
    left = TRANSCRIPT_BYTES
    for name in matching(globs, names)[:MAX_TRANSCRIPTS]:
        content = _read(source, inside + name, left)
        if content is not None:
            found[name] = content
            left -= len(content)
    return found


def _read(source: Source, path: str, limit_bytes: int) -> bytes | None:
    """A regular file of at most `limit_bytes`; None for everything else."""
    try:
        with closing(source.members(path, limit_bytes)) as members:
            for member in members:
                if member.path != path or member.content is None or member.info.size > limit_bytes:
                    return None
                return member.content.read(limit_bytes)
    except (CarryOverflowError, ArchiveFormError, tarfile.TarError, OSError):
        return None
    except (ContainerGoneError, PathRefusedError):
        return None
    return None
