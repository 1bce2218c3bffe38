"""Where a dead container's files are read from: its own layer on this host, else the engine's archives."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import IO, Any, Final, Protocol, cast

from workers.capture.layer import LayerUnusableError, Member, OverlayLayer
from workers.capture.members import shown
from workers.capture.mounted import MountedLayer
from workers.errors import ArchiveFormError, CarryOverflowError
from workers.sandbox.container import Container
from workers.sandbox.stream import ChunkReader

_SLACK_BYTES: Final = 2 << 30
_ORIGINALS_BYTES: Final = 4 << 20
_BLOCK_BYTES: Final = 64 * 1024
_NO_FOLDERS: Final[Mapping[str, str]] = {}

FindOriginals = Callable[[Iterable[str]], dict[str, bytes]]
WasFolder = Callable[[str], bool]


def _folders_everywhere(path: str) -> bool:
    return True


class Source(Protocol):
    """Reads from one stopped container; `direct` says that the number of fetches costs nothing."""

    direct: bool

    def was_folder(self, path: str) -> bool:
        """Whether the image has a folder, or nothing, at `path`."""

    def changes(self) -> list[tuple[int, str]]:
        """(kind, path) of everything that differs from the image."""

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        """Entries at and below `path`; closing it ends the reading.

        Raises `ContainerGoneError` if there is none and `PathRefusedError` if it cannot be followed. The
        caller counts what it takes against `cap_bytes` before it reads any content; far beyond the cap
        `CarryOverflowError` ends a stream of things that nobody takes.
        """

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The image's bytes of small files that were changed."""


class EngineSource:
    """Through the engine's API; works everywhere."""

    direct = False

    def __init__(
        self,
        container: Container,
        find_originals: FindOriginals,
        was_folder: WasFolder = _folders_everywhere,
    ) -> None:
        self._container = container
        self._find_originals = find_originals
        self._was_folder = was_folder

    def was_folder(self, path: str) -> bool:
        """Asked from a never-started container of the same image."""
        return self._was_folder(path)

    def changes(self) -> list[tuple[int, str]]:
        """The engine's list of changes."""
        return self._container.changes()

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        """Members of the engine's archive; the cap is on archive bytes, with `_SLACK_BYTES` for what the
        image holds around them."""
        chunks = self._container.archive(path)
        base = posixpath.dirname(path)
        reader = ChunkReader(chunks, cap_bytes + _SLACK_BYTES)
        try:
            with (
                closing(chunks),
                tarfile.open(
                    fileobj=cast(IO[bytes], reader), mode="r|", encoding="utf-8", bufsize=_BLOCK_BYTES
                ) as tar,
            ):
                for member in tar:
                    cast(Any, tar).members = []  # tarfile would remember every header
                    if member.islnk():
                        member.linkname = posixpath.join(base, member.linkname.strip("/")).strip("/")
                    content = tar.extractfile(member) if member.isreg() else None
                    absolute = posixpath.join(base, member.name.strip("/"))
                    yield Member(absolute, member, content)
        except (tarfile.TarError, UnicodeError) as error:
            raise ArchiveFormError(f"{shown(path)}: {error}") from None

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """From a never-started container of the same image."""
        return self._find_originals(paths)


class LayerSource:
    """From the overlay layer; whatever the layer alone cannot tell is asked from the engine."""

    direct = True

    def __init__(self, layer: OverlayLayer, engine: EngineSource) -> None:
        self._layer = layer
        self._engine = engine

    def changes(self) -> list[tuple[int, str]]:
        """What the layer holds."""
        try:
            return self._layer.changes()
        except (LayerUnusableError, OSError):
            return self._engine.changes()

    def was_folder(self, path: str) -> bool:
        """From the image's own layers."""
        return self._layer.was_folder(path)

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        """From the layer where it covers `path`, where a sparse file counts as long as it says."""
        if not self._layer.covers(path):
            yield from self._engine.members(path, cap_bytes)
            return
        left = cap_bytes + _SLACK_BYTES
        try:
            for member in self._layer.members(path):
                left -= 512 + (member.info.size if member.info.isreg() else 0)
                if left < 0:
                    raise CarryOverflowError(f"more than {cap_bytes} bytes")
                yield member
        except OSError as error:
            raise ArchiveFormError(f"{shown(path)}: {error.strerror}") from None

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """From the image's own layers, as much as fits into `_ORIGINALS_BYTES`."""
        found: dict[str, bytes] = {}
        left = _ORIGINALS_BYTES
        for path in paths:
            data = self._layer.original(path)
            left -= len(data or b"")
            if left < 0:
                break
            if data is not None:
                found[path] = data
        return found


def source_of(
    container: Container,
    find_originals: FindOriginals,
    was_folder: WasFolder = _folders_everywhere,
    folders: Mapping[str, str] = _NO_FOLDERS,
) -> Source:
    """The fastest source that is right for this container; `folders` says where the host has its volumes."""
    engine = EngineSource(container, find_originals, was_folder)
    layer = OverlayLayer.of(container.created)
    if layer is None:
        return engine
    return LayerSource(MountedLayer(layer, folders) if folders else layer, engine)
