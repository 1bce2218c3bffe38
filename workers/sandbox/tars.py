"""Uncompressed tars for the engine, built in memory with exact owners and modes."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """Numeric owner of what is put into a container."""

    uid: int
    gid: int


ROOT = Owner(0, 0)


class TarBuilder:
    """Collects members; paths are absolute inside the container."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)
        self._folders: set[str] = set()

    def folder(self, path: str, mode: int, owner: Owner = ROOT) -> None:
        """A directory (once); parents that do not exist are made by the engine as root 0755."""
        name = path.strip("/")
        if name and name not in self._folders:
            self._folders.add(name)
            info = self._info(name, mode, owner)
            info.type = tarfile.DIRTYPE
            self._tar.addfile(info)

    def file(self, path: str, data: bytes, mode: int, owner: Owner = ROOT) -> None:
        """A regular file."""
        info = self._info(path.strip("/"), mode, owner)
        info.size = len(data)
        self._tar.addfile(info, io.BytesIO(data))

    def link(self, path: str, target: str, owner: Owner = ROOT) -> None:
        """A symbolic link."""
        info = self._info(path.strip("/"), 0o777, owner)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)

    def tree(self, source: Path, files: Iterable[str], target: str, owner: Owner, *, private: bool) -> None:
        """Files of a verified directory, x bits kept; `private` leaves nothing to group and other."""
        mask = 0o700 if private else 0o755
        self.folder(target, mask, owner)
        for relative in sorted(files):
            parts = relative.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                self.folder("/".join([target, *parts[:depth]]), mask, owner)
            path = source / relative
            executable = path.stat().st_mode & 0o100
            self.file(
                f"{target}/{relative}", path.read_bytes(), (0o755 if executable else 0o644) & mask, owner
            )

    def members(self, body: bytes) -> None:
        """Append the raw members of another archive (without its end-of-archive blocks)."""
        self._buffer.write(body)
        self._tar.offset += len(body)

    def bytes(self) -> bytes:
        """The finished archive."""
        self._tar.close()
        return self._buffer.getvalue()

    @staticmethod
    def _info(name: str, mode: int, owner: Owner) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.mode, info.uid, info.gid, info.mtime = mode, owner.uid, owner.gid, 0
        return info
