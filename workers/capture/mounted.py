"""Read what a dead container left where its root was read-only: from its volumes, beside its own layer."""

from __future__ import annotations

import filecmp
import os
import posixpath
import stat
from collections.abc import Mapping
from typing import Final

from workers.capture.layer import ADDED, CHANGED, DELETED, MAX_CHANGES, OverlayLayer
from workers.capture.members import path_form_ok
from workers.errors import CarryOverflowError


class MountedLayer(OverlayLayer):
    """A layer with folders mounted over it: `folders` says where the host has each of them.

    A volume begins as a copy of what the image has there, so what is the same is no change.
    """

    def __init__(self, layer: OverlayLayer, folders: Mapping[str, str]) -> None:
        super().__init__(layer.upper, layer.lowers)
        self._folders: Final = dict(folders)

    def place_of(self, path: str) -> str:
        """The volume's entry for a path in a volume, the layer's own for any other."""
        target = self._target(path)
        return super().place_of(path) if target is None else self._folders[target] + path[len(target) :]

    def _target(self, path: str) -> str | None:
        return next((one for one in self._folders if path == one or path.startswith(f"{one}/")), None)

    def changes(self) -> list[tuple[int, str]]:
        """As for any layer, with every difference in the volumes."""
        found = [one for one in super().changes() if self._target(one[1]) is None]
        for target in self._folders:
            self._compare(target, found)
        return found

    def _compare(self, target: str, found: list[tuple[int, str]]) -> None:
        pending = [(target, True)]
        while pending:
            folder, known = pending.pop()
            names = set()
            with os.scandir(self.place_of(folder)) as entries:
                for entry in entries:
                    if len(found) + len(pending) > MAX_CHANGES:
                        raise CarryOverflowError(f"more than {MAX_CHANGES} changes")
                    names.add(entry.name)
                    path = posixpath.join(folder, entry.name)
                    status = entry.stat(follow_symlinks=False)
                    lower = self._lower(path) if known else None
                    if lower is None:
                        found.append((ADDED, path))
                    elif not _same(entry.path, status, *lower):
                        found.append((CHANGED, path))
                    if stat.S_ISDIR(status.st_mode) and path_form_ok(path):
                        pending.append((path, lower is not None and stat.S_ISDIR(lower[1].st_mode)))
            if known:
                gone = self._lower_names(folder) - names
                found.extend((DELETED, posixpath.join(folder, name)) for name in gone)

    def covers(self, path: str) -> bool:
        """A volume holds everything that lies in it."""
        return self._own(path) is not None if self._target(path) is not None else super().covers(path)


def _same(place: str, status: os.stat_result, was: str, before: os.stat_result) -> bool:
    """Whether an entry is still the image's. A folder that was one is passed through, whatever its mode."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFMT(before.st_mode):
        return False
    if kind == stat.S_IFDIR:
        return True
    if kind == stat.S_IFLNK:
        return os.readlink(place) == os.readlink(was)
    if kind != stat.S_IFREG or status.st_size != before.st_size or status.st_mode != before.st_mode:
        return False
    return filecmp.cmp(place, was, shallow=False)
