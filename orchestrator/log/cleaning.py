"""Removing what an interrupted writer left: files beyond the last signed size, and half-written ones."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from orchestrator.log import tiles
from orchestrator.log.files import Disk
from orchestrator.log.tiles import ENTRIES, WIDTH

LEFT_OVER: Final = ("checkpoint.new", ".statement.new", "checkpoint.witnessed.new")
"""The names under which files of a log's folder are written before they get their own."""

_TILE: Final = re.compile(r"tile/(\d{1,2}|entries)/((?:x\d{3}/)*\d{3})(?:\.p/(\d{1,3}))?")
_DIGITS: Final = 3
_LEVEL: Final = re.compile(r"\d{1,2}|entries", re.ASCII)
_ABOVE: Final = re.compile(r"x\d{3}", re.ASCII)
_FOLDER: Final = re.compile(r"tile/(\d{1,2}|entries)/x(\d{3})")


def drop_left_over(folder: Path, disk: Disk) -> None:
    """Remove half-written files of the folder itself."""
    for name in LEFT_OVER:
        if (folder / name).exists():
            disk.remove(str(folder / name))


def clean_tiles(folder: Path, size: int, disk: Disk) -> None:
    """Remove files of a batch that was never signed, and partial tiles that are full now.

    Folders of a thousand full tiles well before the right edge are not looked into: the cost is that of
    the edge, whatever the size.
    """
    rows = dict(enumerate(tiles.widths(size)))
    for parent, names in _edge_folders(folder, rows):
        digits, full = _numbers(parent.relative_to(folder), rows)
        for name in names:
            # Nearly all are full tiles before the edge; these are passed over without looking closer.
            if len(name) == _DIGITS and name.isascii() and name.isdigit() and int(digits + name) < full:
                continue
            path = parent / name
            match = _TILE.fullmatch(path.relative_to(folder).as_posix())
            if match is not None and not _belongs(match, rows):
                disk.remove(str(path))
        if not os.listdir(parent):
            disk.remove(str(parent))


def _numbers(folder: Path, rows: dict[int, int]) -> tuple[str, int]:
    """The digits that the numbers of tiles in a folder begin with, and how many of its level are full."""
    level, *above = folder.parts[1:] or ("",)
    if not all(_ABOVE.fullmatch(name) for name in above) or not _LEVEL.fullmatch(level):
        return "0", 0
    return "".join(name[1:] for name in above), rows.get(0 if level == ENTRIES else int(level), 0) // WIDTH


def _edge_folders(folder: Path, rows: dict[int, int]) -> list[tuple[Path, list[str]]]:
    """The folders that may hold more than full tiles, with the names of their files, deepest first."""
    found: list[tuple[Path, list[str]]] = []
    for parent, below, names in os.walk(folder / "tile"):
        here = Path(parent)
        below[:] = [name for name in below if not _is_full((here / name).relative_to(folder), rows)]
        found.append((here, names))
    return found[::-1]


def _is_full(folder: Path, rows: dict[int, int]) -> bool:
    """Whether a folder such as `tile/0/x001` and the next thousand tiles are all before the edge."""
    match = _FOLDER.fullmatch(folder.as_posix())
    if match is None:
        return False
    level = 0 if match[1] == ENTRIES else int(match[1])
    return (int(match[2]) + 2) * 1000 * WIDTH <= rows.get(level, 0)


def _belongs(match: re.Match[str], rows: dict[int, int]) -> bool:
    """Whether a tile or bundle is of the signed tree, a partial one only while there is no full one."""
    level = 0 if match[1] == ENTRIES else int(match[1])
    number, row = int(re.sub("[x/]", "", match[2])), rows.get(level, 0)
    full = (number + 1) * WIDTH <= row
    return full if match[3] is None else not full and number * WIDTH + int(match[3]) <= row
