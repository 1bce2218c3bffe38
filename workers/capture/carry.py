"""From a dead agent's container to the set of files that may be graded.

What is carried: the declared artefacts and `/logs/artifacts`, and, where the verifier has no image of its
own, every path that the agent changed outside places of programs and configuration. Deletions are carried
as a list. Everything is decided after the agent's container was killed, so nothing moves any more.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any, Final, cast

from workers.capture.changes import Change, carriable, changed_roots, fetch_plan, program_places
from workers.capture.diff import MAX_FILE_BYTES
from workers.capture.layer import Member
from workers.capture.members import Dropped, MemberFilter, shown
from workers.capture.source import Source
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError, PathRefusedError
from workers.sandbox.tars import Owner

ARTIFACT_FOLDER: Final = "/logs/artifacts"
MAX_MEMBERS: Final = 50_000
KEPT_BYTES: Final = 4 << 20
_HEADER_BYTES: Final = 512
_MAX_MISSING: Final = 1000


@dataclass
class Carry:
    """What crosses: `tar` (uncompressed, names without the leading slash), deletions, and what was refused.

    `tar_body_bytes` is the length of the members without the end-of-archive blocks. `files` holds the bytes
    of small regular files for the diff, `digests` the SHA-256 of all others.
    """

    tar: Path
    tar_body_bytes: int
    deleted: list[str]
    dropped: list[Dropped]
    files: dict[str, bytes]
    changes: list[tuple[int, str]]
    digests: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


class _Passing:
    """Content on its way into the archive, hashed or kept; it must be as long as its header says."""

    def __init__(self, content: IO[bytes], path: str, keep: bool) -> None:
        self._content = content
        self._path = path
        self._digest = None if keep else hashlib.sha256()
        self.kept = bytearray()

    def read(self, size: int) -> bytes:
        try:
            data = self._content.read(size)
        except tarfile.TarError:
            data = b""
        if len(data) < size:
            raise ArchiveFormError(f"{shown(self._path)} is shorter than its header says")
        if self._digest is None:
            self.kept += data
        else:
            self._digest.update(data)
        return data

    def hexdigest(self) -> str | None:
        return None if self._digest is None else self._digest.hexdigest()


def _everything(path: str) -> bool:
    return True


def _excluded(below: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names this path, as a whole or by any of its parts, below the fetched one."""
    parts = [part for part in below.split("/") if part]
    return any(fnmatch(part, pattern) for pattern in patterns for part in (*parts, "/".join(parts)) if part)


class Collector:
    """Writes one archive at `spool`; `cap_bytes` bounds everything that is taken over, together.

    Memory stays small whatever the agent left: content goes through in blocks, only little of it is kept.
    """

    def __init__(
        self, source: Source, owner: Owner, cap_bytes: int, roots: frozenset[str], spool: IO[bytes]
    ) -> None:
        self._source = source
        self._owner = owner
        self._cap = self._left = cap_bytes
        self._members_left = MAX_MEMBERS
        self._filter = MemberFilter(roots)
        self._tar = tarfile.TarFile(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8")
        self._names: set[str] = set()
        self._kept_left = KEPT_BYTES
        self.files: dict[str, bytes] = {}
        self.digests: dict[str, str] = {}
        self.missing: list[str] = []

    def fetch(
        self,
        path: str,
        *,
        exclude: Sequence[str] = (),
        leaf: bool = False,
        covers: Callable[[str], bool] = _everything,
        place_ok: Callable[[str], bool] = _everything,
    ) -> None:
        """Add `path` with everything below it that `covers` says yes to.

        `leaf` leaves out a folder that was one before: the verifier keeps its own. `place_ok` decides what
        may cross at all. A path that is not there, or that the engine cannot follow, is noted as missing.
        """
        try:
            with closing(self._source.members(path, self._left)) as members:
                for member in members:
                    if leaf and member.info.isdir() and self._source.was_folder(path):
                        break
                    if covers(member.path) and not _excluded(member.path[len(path) :], exclude):
                        self._add(member, place_ok)
        except (ContainerGoneError, PathRefusedError):
            if len(self.missing) < _MAX_MISSING:
                self.missing.append(shown(path))

    def _charge(self, info: tarfile.TarInfo) -> None:
        """Count a member before its content is read, whether or not it may cross."""
        self._left -= _HEADER_BYTES + (info.size if info.isreg() else 0)
        self._members_left -= 1
        if self._left < 0:
            raise CarryOverflowError(f"more than {self._cap} bytes")
        if self._members_left < 0:
            raise CarryOverflowError(f"more than {MAX_MEMBERS} members")

    def _add(self, member: Member, place_ok: Callable[[str], bool]) -> None:
        path, info = member.path, member.info
        if path in self._names:
            return
        self._charge(info)
        if not self._filter.admit(path, info, place_ok):
            return
        self._names.add(path)
        out = tarfile.TarInfo(path.strip("/"))
        out.type, out.linkname = info.type, info.linkname
        out.mode = (info.mode & 0o1777) | 0o700 if info.isdir() else (info.mode & 0o755) | 0o600
        out.uid, out.gid, out.mtime = self._owner.uid, self._owner.gid, 0
        if member.content is None:
            self._write(out, None)
            return
        out.type, out.size = tarfile.REGTYPE, info.size
        keep = info.size <= min(MAX_FILE_BYTES, self._kept_left)
        content = _Passing(member.content, path, keep)
        self._write(out, cast(IO[bytes], content))
        digest = content.hexdigest()
        if digest is None:
            self._kept_left -= info.size
            self.files[path] = bytes(content.kept)
        else:
            self.digests[path] = digest

    def _write(self, out: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        self._tar.addfile(out, content)
        cast(Any, self._tar).members = []  # tarfile would remember every header

    def finish(self, change: Change, changes: list[tuple[int, str]], spool: Path) -> Carry:
        """Close the archive."""
        body_bytes = self._tar.offset
        self._tar.close()
        dropped = [*change.refused, *self._filter.dropped]
        return Carry(
            spool, body_bytes, change.deleted, dropped, self.files, changes, self.digests, self.missing
        )


def collect(
    source: Source,
    *,
    artifacts: Iterable[Mapping[str, Any]],
    whole_change: bool,
    workdir: str,
    image_config: Mapping[str, Any],
    owner: Owner,
    cap_bytes: int,
    spool: Path,
) -> Carry:
    """Collect from a stopped container into `spool`.

    Raises `CarryOverflowError` beyond the cap, `ArchiveFormError` and `EngineCallError` when the engine
    fails, `OSError` when the spool cannot be written.
    """
    changes = source.changes()
    change = Change([], [], [])
    programs = program_places(image_config, workdir)
    if whole_change:
        change = changed_roots(changes, workdir, programs, source.was_folder)
    if len(change.roots) > MAX_MEMBERS:
        raise CarryOverflowError(f"more than {MAX_MEMBERS} members")
    declared = [dict(item) for item in artifacts]
    sources = tuple(str(item["source"]) for item in declared)
    known = frozenset(change.roots)
    with spool.open("wb") as file:
        collector = Collector(
            source, owner, cap_bytes, frozenset((*known, *sources, workdir, ARTIFACT_FOLDER)), file
        )
        for path in change.roots if source.direct else fetch_plan(change.roots, workdir):
            collector.fetch(
                path,
                leaf=path in change.leaves,
                covers=_everything if path in known else change.covers,
                place_ok=lambda place: carriable(place, workdir, programs),
            )
        for item in declared:
            collector.fetch(str(item["source"]), exclude=tuple(item.get("exclude") or ()))
        inside = ARTIFACT_FOLDER + "/"
        if ARTIFACT_FOLDER not in sources and any(path.startswith(inside) for _, path in changes):
            collector.fetch(ARTIFACT_FOLDER)
        return collector.finish(change, changes, spool)
