"""From a dead agent's container to the set of files that may be graded.

What is carried: the declared artefacts and `/logs/artifacts`, and, where the verifier has no image of its
own, every path that the agent changed outside places of programs and configuration. Deletions are carried
as a list. Everything is decided after the agent's container was killed, so nothing moves any more.
"""

from __future__ import annotations

import io
import posixpath
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Final

from workers.capture.layer import CHANGED, DELETED, Member
from workers.capture.members import RESERVED, SYSTEM, Drop, Dropped, MemberFilter, path_form_ok, shown, within
from workers.capture.source import Source
from workers.errors import ContainerGoneError
from workers.sandbox.tars import Owner

MAX_ROOTS: Final = 64
ARTIFACT_FOLDER: Final = "/logs/artifacts"
_HOME_CONFIGURATION: Final = re.compile(r"/(root|home/[^/]+)/\.[^/]+(/.*)?")


@dataclass
class Carry:
    """What crosses: `tar` (uncompressed, names without the leading slash), deletions, and what was refused.

    `tar_body_bytes` is the length of the members without the end-of-archive blocks.

    `files` maps each carried regular file to its bytes while the whole stays small enough to diff.
    """

    tar: bytes
    tar_body_bytes: int
    deleted: list[str]
    dropped: list[Dropped]
    files: dict[str, bytes]
    changes: list[tuple[int, str]]
    missing: list[str] = field(default_factory=list)


def program_places(image_config: Mapping[str, Any], workdir: str) -> tuple[str, ...]:
    """Folders on the image's PATH (and the prefixes of their `bin`) that do not contain the workspace."""
    path = next((e[5:] for e in image_config.get("Env") or () if e.startswith("PATH=")), "")
    places = set()
    for folder in path.split(":"):
        prefix = posixpath.dirname(folder) if posixpath.basename(folder) == "bin" else folder
        if prefix not in ("", "/") and not within(workdir, (prefix,)):
            places.add(prefix)
    return (*SYSTEM, *sorted(places))


def _carriable(path: str, workdir: str, programs: tuple[str, ...]) -> bool:
    if within(path, RESERVED) or _HOME_CONFIGURATION.fullmatch(path):
        return False
    return within(path, (workdir,)) or not within(path, programs)


def changed_roots(
    changes: Sequence[tuple[int, str]], workdir: str, programs: tuple[str, ...]
) -> tuple[list[str], list[str], list[Dropped]]:
    """(paths to fetch, deleted paths, refused): the topmost added paths and the changed leaves.

    With more than `MAX_ROOTS` of them inside the workspace the workspace is fetched as one.
    """
    refused: list[Dropped] = []
    deleted: list[str] = []
    roots: list[str] = []
    parents = {posixpath.dirname(path) for _, path in changes}
    for kind, path in sorted(changes, key=lambda item: item[1].split("/")):
        if kind == CHANGED and path in parents:
            continue  # a folder, listed because something below it changed
        if roots and within(path, (roots[-1],)):
            continue
        if not path_form_ok(path):
            refused.append(Dropped(shown(path), Drop.PATH))
        elif not _carriable(path, workdir, programs):
            if not within(path, RESERVED):
                refused.append(Dropped(shown(path), Drop.PROGRAMS))
        elif kind == DELETED:
            deleted.append(path)
        else:
            roots.append(path)
    if len(roots) > MAX_ROOTS:
        outside = [path for path in roots if not within(path, (workdir,))]
        roots = [workdir, *outside] if len(outside) < len(roots) else roots
    return roots, deleted, refused[:1000]


class Collector:
    """Builds one `Carry` out of a stopped container; `cap_bytes` bounds everything read together."""

    def __init__(self, source: Source, owner: Owner, cap_bytes: int, roots: tuple[str, ...]) -> None:
        self._source = source
        self._owner = owner
        self._left = cap_bytes
        self._filter = MemberFilter(roots)
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)
        self._names: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.missing: list[str] = []

    def fetch(self, path: str, *, exclude: Sequence[str] = (), leaf: bool = False) -> None:
        """Add `path` with everything below it; `leaf` keeps a folder's own entry only."""
        members = self._source.members(path, self._left)
        try:
            for member in members:
                if not any(fnmatch(posixpath.basename(member.path), pattern) for pattern in exclude):
                    self._add(member)
                if leaf and member.info.isdir():
                    break
        except ContainerGoneError:
            self.missing.append(shown(path))

    def _add(self, member: Member) -> None:
        path, info = member.path, member.info
        if path in self._names or not self._filter.admit(path, info):
            return
        self._names.add(path)
        out = tarfile.TarInfo(path.strip("/"))
        out.type, out.linkname = info.type, info.linkname
        out.mode = (info.mode & 0o755) | (0o700 if info.isdir() else 0o600)
        out.uid, out.gid, out.mtime = self._owner.uid, self._owner.gid, 0
        if not info.isreg():
            self._tar.addfile(out)
            return
        data = member.content.read() if member.content else b""
        self._left -= len(data)
        out.type, out.size = tarfile.REGTYPE, len(data)
        self.files[path] = data
        self._tar.addfile(out, io.BytesIO(data))

    def finish(self, deleted: list[str], refused: list[Dropped], changes: list[tuple[int, str]]) -> Carry:
        """Close the archive."""
        body_bytes = self._tar.offset
        self._tar.close()
        dropped = [*refused, *self._filter.dropped]
        return Carry(self._buffer.getvalue(), body_bytes, deleted, dropped, self.files, changes, self.missing)


def collect(
    source: Source,
    *,
    artifacts: Iterable[Mapping[str, Any]],
    whole_change: bool,
    workdir: str,
    image_config: Mapping[str, Any],
    owner: Owner,
    cap_bytes: int,
) -> Carry:
    """Collect from a stopped container; raises `CarryOverflowError` beyond the cap."""
    changes = source.changes()
    declared = [dict(item) for item in artifacts]
    roots: list[str] = []
    deleted: list[str] = []
    refused: list[Dropped] = []
    if whole_change:
        roots, deleted, refused = changed_roots(changes, workdir, program_places(image_config, workdir))
    sources = tuple(str(item["source"]) for item in declared)
    collector = Collector(source, owner, cap_bytes, (*roots, *sources, workdir, ARTIFACT_FOLDER))
    kinds = {path: kind for kind, path in changes}
    for path in roots:
        collector.fetch(path, leaf=kinds.get(path) == CHANGED and path != workdir)
    for item in declared:
        collector.fetch(str(item["source"]), exclude=tuple(item.get("exclude") or ()))
    convention = ARTIFACT_FOLDER in sources
    if not convention and any(
        within(path, (ARTIFACT_FOLDER,)) and path != ARTIFACT_FOLDER for _, path in changes
    ):
        collector.fetch(ARTIFACT_FOLDER)
    return collector.finish(deleted, refused, changes)


def _in_artifact_folder(path: str) -> bool:
    return path.startswith(ARTIFACT_FOLDER + "/")
