"""A build context as a deterministic, uncompressed tar whose every file we hash ourselves.

Measured elsewhere (reference/harbor.md section 9): builders that compare size and date hand one task
the files of another. So the digest here is over contents, and dates and owners in the tar are constant.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from docker.utils.build import exclude_paths

from .errors import BuildContextError

MTIME_S = 1_735_689_600
IGNORE_FILE = ".dockerignore"
SENT_DOCKERFILE = ".assize.Dockerfile"
_MAX_FILES = 100_000


@dataclass(frozen=True)
class ContextEntry:
    """One member: `kind` file, folder or link; `sha256` of a file's bytes; `target` of a link."""

    path: str
    kind: str
    executable: bool
    sha256: str
    target: str
    size_bytes: int


@dataclass(frozen=True)
class BuildContext:
    """The members of one context folder after its ignore file, sorted by path."""

    root: Path
    dockerfile: str
    entries: tuple[ContextEntry, ...]

    @property
    def digest(self) -> str:
        """sha256 (hex) over paths, kinds, executable bits, contents and link targets; dates play no part."""
        rows = [[e.path, e.kind, e.executable, e.sha256, e.target] for e in self.entries]
        text = json.dumps([self.dockerfile, rows], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def files(self) -> Mapping[str, str]:
        """sha256 by path, files only."""
        return {entry.path: entry.sha256 for entry in self.entries if entry.kind == "file"}

    def dockerfile_text(self) -> str:
        """The Dockerfile, checked against the hash taken when the context was read."""
        return _read_again(self.root, self._entry(self.dockerfile)).decode("utf-8", errors="strict")

    def _entry(self, path: str) -> ContextEntry:
        found = next((entry for entry in self.entries if entry.path == path), None)
        if found is None or found.kind != "file":
            raise BuildContextError(f"{self.root.name}: there is no file {path}")
        return found

    def write_tar(self, out: IO[bytes], sent_dockerfile: str) -> None:
        """Write the context with `sent_dockerfile` as an extra member SENT_DOCKERFILE.

        The ignore file that is sent names that member and itself: the engine then takes both out of the
        context before the first step, so that `COPY .` puts neither into the image.
        """
        extra = {
            SENT_DOCKERFILE: sent_dockerfile.encode(),
            IGNORE_FILE: f"{SENT_DOCKERFILE}\n{IGNORE_FILE}\n".encode(),
        }
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in self.entries:
                if entry.path not in extra:
                    self._add(tar, entry)
            for name, data in extra.items():
                tar.addfile(_header(name, len(data), 0o644), io.BytesIO(data))

    def _add(self, tar: tarfile.TarFile, entry: ContextEntry) -> None:
        if entry.kind == "file":
            data = _read_again(self.root, entry)
            mode = 0o755 if entry.executable else 0o644
            tar.addfile(_header(entry.path, len(data), mode), io.BytesIO(data))
            return
        header = _header(entry.path, 0, 0o755)
        header.type = tarfile.DIRTYPE if entry.kind == "folder" else tarfile.SYMTYPE
        header.linkname = entry.target
        tar.addfile(header)


def read_context(root: Path, dockerfile: str = "Dockerfile") -> BuildContext:
    """Read and hash a context folder, leaving out what its ignore file names.

    BuildContextError for: a missing folder or Dockerfile, a link that leaves the folder, a device,
    socket or pipe, a file that cannot be read, a member with the name we send our Dockerfile under.
    """
    if not root.is_dir():
        raise BuildContextError(f"there is no build context folder {root}")
    paths = sorted(_included(root, dockerfile), key=lambda path: path.encode("utf-8", "surrogateescape"))
    if len(paths) > _MAX_FILES:
        raise BuildContextError(f"{root.name}: more than {_MAX_FILES} members in a build context")
    context = BuildContext(root, dockerfile, tuple(_read_entry(root, path) for path in paths))
    context.dockerfile_text()
    return context


def _included(root: Path, dockerfile: str) -> set[str]:
    patterns: list[str] = []
    for name in (f"{dockerfile}{IGNORE_FILE}", IGNORE_FILE):
        path = root / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            patterns = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
            break
    # The SDK's helper always keeps the Dockerfile and the ignore file, as the engine expects them.
    found = {path.replace(os.sep, "/") for path in exclude_paths(str(root), patterns, dockerfile=dockerfile)}
    return {path for path in found if path not in ("", ".")} | _parents(found)


def _parents(paths: set[str]) -> set[str]:
    """Folders on the way to an included file, which an ignore pattern may have left out."""
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents if str(parent) != "."}


def _read_entry(root: Path, path: str) -> ContextEntry:
    if path == SENT_DOCKERFILE:
        raise BuildContextError(f"{root.name}: the name {SENT_DOCKERFILE} is taken by the build itself")
    full = root / path
    try:
        state = full.lstat()
        if stat.S_ISLNK(state.st_mode):
            target = full.readlink().as_posix()
            _check_link(root, path, target)
            return ContextEntry(path, "link", False, "", target, 0)
        if stat.S_ISDIR(state.st_mode):
            return ContextEntry(path, "folder", True, "", "", 0)
        if not stat.S_ISREG(state.st_mode):
            raise BuildContextError(f"{root.name}: {path} is neither a file, a folder nor a link")
        data = full.read_bytes()
    except OSError as error:
        raise BuildContextError(f"{root.name}: {path} cannot be read: {error.strerror}") from error
    return ContextEntry(path, "file", bool(state.st_mode & 0o111), _sha256(data), "", len(data))


def _check_link(root: Path, path: str, target: str) -> None:
    """Refuse a link out of the context: its target is not hashed and differs between machines."""
    steps = 0
    for part in (*PurePosixPath(path).parent.parts, *PurePosixPath(target).parts):
        steps += -1 if part == ".." else 1
        if steps < 0 or part == "/":
            raise BuildContextError(f"{root.name}: the link {path} -> {target} leaves the build context")


def _read_again(root: Path, entry: ContextEntry) -> bytes:
    try:
        data = (root / entry.path).read_bytes()
    except OSError as error:
        raise BuildContextError(f"{root.name}: {entry.path} cannot be read: {error.strerror}") from error
    if _sha256(data) != entry.sha256:
        raise BuildContextError(f"{root.name}: {entry.path} changed while its image was being built")
    return data


def _header(name: str, size: int, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, mode, MTIME_S
    return header


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
