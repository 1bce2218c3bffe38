"""Where a dead container's files are read from: its own layer on this host, else the engine's archives."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Protocol, cast

from workers.capture.layer import LayerUnusableError, Member, OverlayLayer
from workers.capture.stream import ChunkReader
from workers.errors import ArchiveFormError, CarryOverflowError
from workers.sandbox.container import Container

FindOriginals = Callable[[Iterable[str]], dict[str, bytes]]


class Source(Protocol):
    """Reads from one stopped container."""

    def changes(self) -> list[tuple[int, str]]:
        """(kind, path) of everything that differs from the image."""

    def members(self, path: str, cap_bytes: int) -> Iterator[Member]:
        """Entries at and below `path`; `ContainerGoneError` if there is none, `CarryOverflowError` beyond."""

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The image's bytes of small files that were changed."""


class EngineSource:
    """Through the engine's API; works everywhere."""

    def __init__(self, container: Container, find_originals: FindOriginals) -> None:
        self._container = container
        self._find_originals = find_originals

    def changes(self) -> list[tuple[int, str]]:
        """The engine's list of changes."""
        return self._container.changes()

    def members(self, path: str, cap_bytes: int) -> Iterator[Member]:
        """Members of the engine's archive; the cap counts archive bytes."""
        chunks = self._container.archive(path)
        base = posixpath.dirname(path)
        reader = ChunkReader(chunks, cap_bytes)
        try:
            with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|") as tar:
                for member in tar:
                    if member.islnk():
                        member.linkname = posixpath.join(base, member.linkname.strip("/")).strip("/")
                    content = tar.extractfile(member) if member.isreg() else None
                    absolute = posixpath.join(base, member.name.strip("/"))
                    yield Member(absolute, member, content)
        except (tarfile.TarError, UnicodeError) as error:
            raise ArchiveFormError(f"{path!r}: {error}") from None
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """From a never-started container of the same image."""
        return self._find_originals(paths)


class LayerSource:
    """From the overlay layer; whatever the layer alone cannot tell is asked from the engine."""

    def __init__(self, layer: OverlayLayer, engine: EngineSource) -> None:
        self._layer = layer
        self._engine = engine

    def changes(self) -> list[tuple[int, str]]:
        """What the layer holds."""
        try:
            return self._layer.changes()
        except (LayerUnusableError, OSError):
            return self._engine.changes()

    def members(self, path: str, cap_bytes: int) -> Iterator[Member]:
        """From the layer where it covers `path`; the cap counts file sizes, sparse or not."""
        if not self._layer.covers(path):
            yield from self._engine.members(path, cap_bytes)
            return
        left = cap_bytes
        for member in self._layer.members(path):
            left -= 512 + (member.info.size if member.info.isreg() else 0)
            if left < 0:
                raise CarryOverflowError(f"more than {cap_bytes} bytes")
            yield member

    def originals(self, paths: Iterable[str]) -> dict[str, bytes]:
        """From the image's own layers."""
        found = ((path, self._layer.original(path)) for path in paths)
        return {path: data for path, data in found if data is not None}


def source_of(container: Container, find_originals: FindOriginals) -> Source:
    """The fastest source that is right for this container."""
    engine = EngineSource(container, find_originals)
    layer = OverlayLayer.of(container.created)
    return engine if layer is None else LayerSource(layer, engine)
