"""Which members of an agent's archive may cross into the verifier's container: one pure filter.

Regular files, directories and harmless symbolic links cross; everything else is dropped by name with a
reason (reference/sandbox.md 1.4). Owners are replaced, set-id bits removed, names and depth bounded.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_DEPTH: Final = 64
MAX_PATH_BYTES: Final = 1024
MAX_LINK_BYTES: Final = 1024
MAX_SHOWN: Final = 2048

RESERVED: Final = ("/tests", "/solution", "/logs", "/assize", "/opt/agent", "/proc", "/sys", "/dev")
"""Places of ours and of the kernel: nothing is carried there, no link may point there.

`/opt/agent` is the mount point of the agent's bundle: the engine lists it as added, and it is no work.
"""

SYSTEM: Final = (
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/run",
    "/sbin",
    "/usr",
)
"""Programs, libraries and their configuration: the verifier keeps its own."""

_LINK_SAFE: Final = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/opt", "/etc/alternatives")


class Drop(StrEnum):
    """Why a member does not cross."""

    KIND = "not_a_file_directory_or_symlink"
    PATH = "path_form"
    RESERVED = "reserved_place"
    LINK_TARGET = "link_points_outside"
    THROUGH_LINK = "path_leads_through_a_link"
    HARDLINK = "hard_link_to_something_not_carried"
    PROGRAMS = "programs_or_configuration"


@dataclass(frozen=True)
class Dropped:
    """One refused member; the path is shown with its unprintable bytes escaped."""

    path: str
    why: Drop


def within(path: str, places: tuple[str, ...]) -> bool:
    """Whether an absolute path is one of `places` or below one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def below(path: str, places: frozenset[str]) -> bool:
    """`within` for many places: the cost depends on the depth of the path only."""
    while path not in places:
        above = posixpath.dirname(path)
        if above == path:
            return False
        path = above
    return True


def path_form_ok(path: str) -> bool:
    """Absolute, normalised, bounded, without NUL."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return (
        path.startswith("/")
        and not path.startswith("//")  # normpath keeps two
        and posixpath.normpath(path) == path
        and len(raw) <= MAX_PATH_BYTES
        and path.count("/") <= MAX_DEPTH
        and "\0" not in path
    )


def shown(path: str) -> str:
    """A path fit for records and terminals: printable ASCII, every other byte and `\\` as `\\xNN`."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        raw = path.encode("utf-8", "surrogatepass")
    text = raw.decode("latin-1")[:MAX_SHOWN]
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\x{ord(c):02x}" for c in text)[:MAX_SHOWN]


class MemberFilter:
    """Decides member by member; remembers carried files and links of this collection.

    `roots` are the places that links may point into.
    """

    def __init__(self, roots: Collection[str]) -> None:
        self._roots = frozenset(roots)
        self._links: set[str] = set()
        self._files: set[str] = set()
        self.dropped: list[Dropped] = []

    def admit(
        self, path: str, member: tarfile.TarInfo, place_ok: Callable[[str], bool] = lambda path: True
    ) -> bool:
        """Whether the member, at absolute `path`, crosses; a refusal is noted in `dropped`.

        `place_ok` decides about every single path, so that a new folder cannot smuggle what may not cross
        by itself.
        """
        why = self._refusal(path, member, place_ok)
        if why is not None:
            if len(self.dropped) < 1000:
                self.dropped.append(Dropped(shown(path), why))
            return False
        if member.issym():
            self._links.add(path)
        elif not member.isdir():
            self._files.add(path)
        return True

    def _refusal(self, path: str, member: tarfile.TarInfo, place_ok: Callable[[str], bool]) -> Drop | None:
        if not path_form_ok(path):
            return Drop.PATH
        if within(path, RESERVED) and not within(path, ("/logs/artifacts",)):
            return Drop.RESERVED
        if not place_ok(path):
            return Drop.PROGRAMS
        if self._leads_through_link(path):
            return Drop.THROUGH_LINK
        if member.issym():
            return None if self._link_ok(path, member.linkname) else Drop.LINK_TARGET
        if member.islnk():
            return None if "/" + member.linkname.strip("/") in self._files else Drop.HARDLINK
        return None if member.isreg() or member.isdir() else Drop.KIND

    def _leads_through_link(self, path: str) -> bool:
        parent = posixpath.dirname(path)
        while parent not in self._links:
            above = posixpath.dirname(parent)
            if above == parent:
                return False
            parent = above
        return True

    def _link_ok(self, path: str, target: str) -> bool:
        """Whether a link's target lies, step by step, in a place that may be reached.

        `..` is resolved by name only where it cannot follow another link, that is at the front; anywhere
        else `x/..` is the parent of whatever `x` points to, and could be any place.
        """
        if not target or "\0" in target or len(target) > MAX_LINK_BYTES:
            return False
        parts = [part for part in target.split("/") if part not in ("", ".")]
        climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
        if ".." in parts[climbs:] or (climbs and target.startswith("/")):
            return False
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        resolved = "/" + resolved.lstrip("/")  # two leading slashes survive normpath
        if resolved == "/" or within(resolved, RESERVED):
            return False
        return below(resolved, self._roots) or within(resolved, _LINK_SAFE)
