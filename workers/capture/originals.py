"""The bytes that a changed file had in the pinned image, for diffs.

One never-started container per image serves all attempts; small files are remembered.
"""

from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable, Iterable
from typing import IO, Final, cast

from workers.capture.diff import MAX_FILE_BYTES
from workers.errors import CarryOverflowError, ContainerGoneError, PathRefusedError
from workers.sandbox.container import Container
from workers.sandbox.stream import ChunkReader

MAX_FILES: Final = 64
_MAX_REMEMBERED: Final = 2_000


class Originals:
    """Looks files up in pinned images; `create(image_id)` makes the never-started container."""

    def __init__(self, create: Callable[[str], Container]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._containers: dict[str, Container] = {}
        self._known: dict[tuple[str, str], bytes | None] = {}
        self._folders: dict[tuple[str, str], bool] = {}

    def of(self, image_id: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Original bytes by path, for at most `MAX_FILES` paths that exist as small regular files."""
        found: dict[str, bytes] = {}
        for path in sorted(paths)[:MAX_FILES]:
            data = self._one(image_id, path)
            if data is not None:
                found[path] = data
        return found

    def _one(self, image_id: str, path: str) -> bytes | None:
        key = (image_id, path)
        with self._lock:
            if key not in self._known:
                if len(self._known) >= _MAX_REMEMBERED:
                    self._known.clear()
                if image_id not in self._containers:
                    self._containers[image_id] = self._create(image_id)
                self._known[key] = self._read(self._containers[image_id], path)
            return self._known[key]

    def was_folder(self, image_id: str, path: str) -> bool:
        """Whether the image has a folder, or nothing, at `path`."""
        key = (image_id, path)
        with self._lock:
            if key not in self._folders:
                if len(self._folders) >= _MAX_REMEMBERED:
                    self._folders.clear()
                if image_id not in self._containers:
                    self._containers[image_id] = self._create(image_id)
                self._folders[key] = self._containers[image_id].is_folder(path) is not False
            return self._folders[key]

    @staticmethod
    def _read(container: Container, path: str) -> bytes | None:
        try:
            reader = ChunkReader(container.archive(path), MAX_FILE_BYTES + 16_384)
            with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|") as tar:
                member = tar.next()
                content = tar.extractfile(member) if member is not None and member.isreg() else None
                return content.read() if content else None
        except (ContainerGoneError, PathRefusedError, CarryOverflowError, tarfile.TarError, UnicodeError):
            return None

    def close(self) -> None:
        """Remove the containers."""
        with self._lock:
            for container in self._containers.values():
                container.remove()
            self._containers.clear()
