"""Which paths of a changed file system are fetched, and which may cross: pure.

The engine lists every changed (0), added (1) and deleted (2) path. What is fetched are the topmost added
paths and the changed leaves; the number of fetches is bounded by fetching their folders instead, of which
only the changed part is then taken.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from workers.capture.members import RESERVED, SYSTEM, Drop, Dropped, path_form_ok, shown, within
from workers.errors import CarryOverflowError

CHANGED, ADDED, DELETED = 0, 1, 2
MAX_ROOTS: Final = 64
MAX_REFUSED: Final = 1000
_HOME_CONFIGURATION: Final = re.compile(r"/(root|home/[^/]+)/\.[^/]+(/.*)?")
_SEARCH_PATHS: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "NODE_PATH", "PERL5LIB", "RUBYLIB")
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")


@dataclass
class Change:
    """`roots` lie at or above everything that may cross; `deleted` and `refused` paths lie outside them."""

    roots: list[str]
    deleted: list[str]
    refused: list[Dropped]
    leaves: set[str] = field(default_factory=set)
    """Roots of which only the own entry changed."""

    def covers(self, path: str) -> bool:
        """Whether `path` (bytes that are no text as surrogates) is part of the change."""
        known = self._known
        path = _NO_TEXT.sub("\ufffd", path)  # the engine's list has lost these bytes
        if path in known:
            return True
        above = posixpath.dirname(path)
        while above != path:
            path, above = above, posixpath.dirname(above)
            if path in known:
                return path not in self.leaves
        return False

    def __post_init__(self) -> None:
        self._known = frozenset(self.roots)


def program_places(image_config: Mapping[str, Any], workdir: str) -> tuple[str, ...]:
    """Folders on the image's search paths (and the prefixes of a `bin`) that do not contain the workspace."""
    places = set()
    for entry in image_config.get("Env") or ():
        name, _, value = str(entry).partition("=")
        for folder in value.split(":") if name in _SEARCH_PATHS else ():
            if not folder.startswith("/"):
                continue
            place = posixpath.normpath("/" + folder.lstrip("/"))
            prefix = posixpath.dirname(place) if posixpath.basename(place) == "bin" else place
            if prefix != "/" and not within(workdir, (prefix,)):
                places.add(prefix)
    return (*SYSTEM, *sorted(places))


def carriable(path: str, workdir: str, programs: tuple[str, ...]) -> bool:
    """Whether a path that the agent made may cross at all."""
    if within(path, RESERVED) or _HOME_CONFIGURATION.fullmatch(path):
        return False
    return within(path, (workdir,)) or not within(path, programs)


def _by_parts(item: tuple[int, str]) -> str:
    return item[1].replace("/", "\0")  # a folder's content follows it directly, whatever its siblings are


def _replaced_folders(changes: Sequence[tuple[int, str]], was_folder: Callable[[str], bool]) -> set[str]:
    """Folders that stand where the image has something else.

    The engine calls such a folder changed. Everything in it is new; a folder with anything changed or
    deleted in it was one before, so that only the others have to be looked up.
    """
    old = {posixpath.dirname(path) for kind, path in changes if kind != ADDED}
    fresh = {posixpath.dirname(path) for kind, path in changes if kind == ADDED} - old
    suspects = sorted(path for kind, path in changes if kind == CHANGED and path in fresh)
    # With many of them each one's own entry is carried instead: right in both cases, only less exact.
    return {path for path in suspects if len(suspects) > MAX_ROOTS or not was_folder(path)}


def changed_roots(
    changes: Sequence[tuple[int, str]],
    workdir: str,
    programs: tuple[str, ...],
    was_folder: Callable[[str], bool] = lambda path: True,
) -> Change:
    """What to take over. `was_folder` answers for the pinned image (true where it has nothing)."""
    parents = {posixpath.dirname(path) for _, path in changes}
    may_cross = [item for item in changes if carriable(item[1], workdir, programs)]
    replaced = _replaced_folders(may_cross, was_folder)
    out = Change([], [], [])
    last = ""
    for kind, path in sorted(changes, key=_by_parts):
        if kind == CHANGED and path in parents and path not in replaced:
            continue  # a folder, listed because something below it changed
        if last and within(path, (last,)):
            continue
        if not path_form_ok(path):
            out.refused.append(Dropped(shown(path), Drop.PATH))
        elif not carriable(path, workdir, programs):
            if not within(path, RESERVED):
                out.refused.append(Dropped(shown(path), Drop.PROGRAMS))
        elif kind == DELETED:
            out.deleted.append(path)
        else:
            out.roots.append(path)
            if kind == CHANGED and path not in replaced:
                out.leaves.add(path)
            else:
                last = path
    return Change(out.roots, out.deleted, out.refused[:MAX_REFUSED], out.leaves)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Without the paths that lie below another one, and without `/`, which is never fetched."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda item: item.replace("/", "\0")):
        if path != "/" and not (found and within(path, (found[-1],))):
            found.append(path)
    return found


def fetch_plan(roots: Iterable[str], workdir: str) -> list[str]:
    """At most `MAX_ROOTS` paths that together hold all `roots`; raises `CarryOverflowError` if none do.

    Too many roots in the workspace: the workspace. Still too many: the folders that hold most of them.
    A name that the engine's list has lost is fetched through its folder.
    """
    above = posixpath.dirname
    plan = _topmost(above(root) if "\ufffd" in posixpath.basename(root) else root for root in roots)
    if len(plan) > MAX_ROOTS and workdir != "/":
        plan = _topmost(workdir if within(path, (workdir,)) else path for path in plan)
    while len(plan) > MAX_ROOTS:
        holders = Counter(above(path) for path in plan if above(path) != "/")
        if not holders:
            raise CarryOverflowError(f"changes in more than {MAX_ROOTS} places")
        excess, chosen = len(plan) - MAX_ROOTS, set()
        for holder, count in holders.most_common():
            chosen.add(holder)
            excess -= count - 1
            if excess <= 0:
                break
        plan = _topmost(above(path) if above(path) in chosen else path for path in plan)
    return plan
