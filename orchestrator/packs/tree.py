"""One way to read a folder that is going to be pinned: which entries it holds, and their digest.

Refused on sight (reference/packs.md section 8): links that leave the folder, special files, names that
collide without case, names that are not plain text, Git LFS pointers. Every file counts, ignored or not:
what is not pinned could still reach an image build. Only a `.git` folder directly at the root is skipped.
Empty folders are not entries (version control drops them as well).
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator import canonical
from orchestrator.packs.errors import PackError, join_problems

_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_SKIPPED_AT_ROOT: Final = frozenset({".git"})


@dataclass(frozen=True)
class TreeEntry:
    """One file or symbolic link.

    `path` is relative with forward slashes; `executable` is the owner's x bit; for a link `sha256` and
    `bytes` are those of its target text, which is in `target`.
    """

    path: str
    kind: Literal["file", "link"]
    executable: bool
    bytes: int
    sha256: str
    target: str | None = None

    def record(self) -> list[object]:
        """The entry in the form that is hashed: path, kind, x bit, size, SHA-256."""
        return [self.path, self.kind, self.executable, self.bytes, self.sha256]


def tree_digest(entries: Iterable[TreeEntry]) -> str:
    """SHA-256 over the canonical records sorted by path (UTF-8 bytes); the order given does not matter."""
    records = sorted((entry.record() for entry in entries), key=lambda record: str(record[0]).encode())
    return canonical.digest(records)


def _name_problem(name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    if "\\" in name or any(unicodedata.category(char) == "Cc" for char in name):
        return "its name holds a backslash or a control character"
    return None


def link_target_inside(root: Path, link: Path, target: str) -> bool:
    """Whether `target`, read where `link` is, stays below `root`; absolute targets and loops never do."""
    inside = False
    if target.startswith("/") or not target:
        return False
    try:
        inside = (link.parent / target).resolve().is_relative_to(root.resolve())
        link.stat()
    except FileNotFoundError:
        return inside
    except (OSError, RuntimeError):
        return False
    return inside


def _read_link(root: Path, path: Path, shown: str) -> TreeEntry:
    target = os.readlink(path)
    if _name_problem(target) is not None:
        raise PackError(f"{shown}: the link's target is not plain text")
    if not link_target_inside(root, path, target):
        raise PackError(f"{shown}: the link to {target!r} leaves the folder")
    raw = target.encode("utf-8")
    return TreeEntry(shown, "link", False, len(raw), hashlib.sha256(raw).hexdigest(), target)


def _read_file(path: Path, shown: str) -> TreeEntry:
    with path.open("rb") as stream:
        head = stream.read(len(_LFS_POINTER))
        if head == _LFS_POINTER:
            raise PackError(f"{shown}: a Git LFS pointer stands in for the file; fetch the real file")
        stream.seek(0)
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        info = os.fstat(stream.fileno())
    return TreeEntry(shown, "file", bool(info.st_mode & stat.S_IXUSR), info.st_size, sha256)


def _read_entry(root: Path, path: Path) -> TreeEntry:
    shown = path.relative_to(root).as_posix()
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return _read_link(root, path, shown)
    if not stat.S_ISREG(mode):
        raise PackError(f"{shown}: neither a file, a folder nor a link")
    try:
        return _read_file(path, shown)
    except OSError as error:
        raise PackError(f"{shown}: cannot be read ({error.strerror})") from None


def _collisions(paths: Sequence[str]) -> list[str]:
    """Pairs of paths (or of their parent folders) that are one path on a folder without case."""
    seen: dict[str, str] = {}
    problems: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            actual = "/".join(parts[:depth])
            first = seen.setdefault(unicodedata.normalize("NFC", actual).casefold(), actual)
            if first != actual:
                problems.add(f"{actual}: differs from {first} only by case or Unicode form")
    return sorted(problems)


def _walk(root: Path) -> tuple[list[Path], list[str]]:
    """Every file and link below `root`, and the names that are not plain text."""
    found: list[Path] = []
    problems: list[str] = []
    pending = [root]
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as items:
            for item in items:
                path = Path(item.path)
                problem = _name_problem(item.name)
                if problem is not None:
                    problems.append(f"{os.fsencode(path.relative_to(root))!r}: {problem}")
                elif folder == root and item.name in _SKIPPED_AT_ROOT:
                    continue
                elif item.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    found.append(path)
    return found, problems


def scan_tree(root: Path, subject: str) -> tuple[TreeEntry, ...]:
    """Every entry below `root`, sorted by path; raises `PackError` naming `subject` and each bad entry."""
    try:
        found, problems = _walk(root)
    except OSError as error:
        raise PackError(f"{subject}: {root} cannot be read ({error.strerror})") from None
    entries: list[TreeEntry] = []
    for path in found:
        try:
            entries.append(_read_entry(root, path))
        except PackError as error:
            problems.append(error.message)
    problems += _collisions(sorted(entry.path for entry in entries))
    if problems:
        raise join_problems(subject, sorted(problems))
    return tuple(sorted(entries, key=lambda entry: entry.path.encode()))


def below(entries: Iterable[TreeEntry], prefix: str) -> tuple[TreeEntry, ...]:
    """The entries inside the folder `prefix`."""
    start = prefix.rstrip("/") + "/"
    return tuple(entry for entry in entries if entry.path.startswith(start))
