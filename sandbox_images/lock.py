"""`images.lock.json`: which image Id stands behind every image name used by one installation.

Shape: `{"schema": "assize.images-lock/1", "images": {name: {id, source, recipe, created, architecture,
detail}}}`. `id` is `sha256:<64 hex>`; `recipe` the digest of the recipe or build context, empty for
images that came as they are; `created` the engine's own RFC 3339 text.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .errors import ImageLockError

SCHEMA = "assize.images-lock/1"
SOURCES = frozenset({"registry", "mmdebstrap", "standin", "build", "local"})
_ID = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class LockedImage:
    """One line of the lock. `source`: one of SOURCES; `local` was found in the engine as it is."""

    id: str
    source: str
    recipe: str
    created: str
    architecture: str
    detail: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not isinstance(getattr(self, field.name), str):
                raise ImageLockError(f"lock entry: {field.name} is not text")
        if not _ID.fullmatch(self.id):
            raise ImageLockError(f"lock entry: {self.id!r} is not an image Id")
        if self.source not in SOURCES:
            raise ImageLockError(f"lock entry: unknown source {self.source!r}")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created, never removed) against threads and processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a reader, or a crash, meets the old bytes or the new, nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Process and thread in the name: two writers must not share one temporary file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class ImageLock:
    """The lock file at one path; reads are fresh, writes are atomic and serialised over processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> dict[str, LockedImage]:
        """All entries by name; empty when there is no file. ImageLockError when it is not a lock file."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise ImageLockError(f"{self.path} is not UTF-8", hint=self._hint) from error
        try:
            return parse_lock(text)
        except ImageLockError as error:
            raise ImageLockError(f"{self.path}: {error.message}", hint=self._hint) from error

    def get(self, name: str) -> LockedImage | None:
        """The entry of one name, or None."""
        return self.entries().get(name)

    def record(self, name: str, image: LockedImage) -> None:
        """Add or replace one entry."""
        with file_lock(self.path.with_name(self.path.name + ".guard")):
            entries = self.entries()
            if entries.get(name) != image:
                entries[name] = image
                write_atomically(self.path, render_lock(entries).encode())

    @property
    def _hint(self) -> str:
        return "move the file away: it is written again, from the images that are there"


def render_lock(entries: dict[str, LockedImage]) -> str:
    """The text of a lock file, names sorted, one trailing newline."""
    images = {name: asdict(entries[name]) for name in sorted(entries)}
    return json.dumps({"schema": SCHEMA, "images": images}, indent=2, ensure_ascii=False) + "\n"


def parse_lock(text: str) -> dict[str, LockedImage]:
    """Strict reading: one known schema, no unknown, missing or repeated member."""
    try:
        data = json.loads(text, object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        raise ImageLockError(f"not JSON: {error}") from error
    if not isinstance(data, dict) or set(data) != {"schema", "images"} or data["schema"] != SCHEMA:
        raise ImageLockError(f"not a lock of schema {SCHEMA}")
    if not isinstance(data["images"], dict):
        raise ImageLockError("images is not an object")
    wanted = {field.name for field in fields(LockedImage)}
    entries: dict[str, LockedImage] = {}
    for name, entry in data["images"].items():
        if not isinstance(entry, dict) or set(entry) != wanted:
            raise ImageLockError(f"entry {name!r} does not have exactly the members {sorted(wanted)}")
        entries[name] = LockedImage(**entry)
    return entries


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ImageLockError("a member is repeated")
    return found
