"""A file system of its own for one attempt, in a file of the host, behind a loop device.

The file has no name once the device holds it, and the device is told to go as soon as a container has the
file system mounted: then the kernel frees both with the last mount, whoever dies when. What can be left by
`kill -9` in between is found by its name (`reap_loops`).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.errors import WorkerError
from workers.sandbox.tars import Owner

_NAME: Final = re.compile(r"assize-([A-Za-z0-9_-]+)\+([A-Za-z0-9]+)\+(\d+)\.img")
TOOLS: Final = ("mkfs.ext4", "debugfs", "losetup")
_SBIN: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
_LIMIT_S: Final = 60
_BLOCKS: Final = Path("/sys/block")


class LoopError(WorkerError):
    """No loop device can be had: a tool is missing, or this user may not."""


def _run(*argv: str) -> str:
    program = shutil.which(argv[0], path=_SBIN)
    if program is None:
        raise LoopError(f"{argv[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LoopError(f"{argv[0]}: {error}") from None
    if done.returncode != 0:
        raise LoopError(f"{argv[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


@dataclass(frozen=True)
class LoopDevice:
    """A device with an empty ext4 on it."""

    path: str

    @classmethod
    def make(cls, file: Path, size: int, files: int, owner: Owner) -> LoopDevice:
        """`size` bytes for at most `files` files, its root the owner's; raises `LoopError`.

        The file is sparse and loses its name here.
        """
        try:
            with file.open("xb") as handle:
                handle.truncate(size)
        except OSError as error:
            raise LoopError(f"{file.name}: {error.strerror}") from None
        try:
            options = f"root_owner={owner.uid}:{owner.gid}"
            # No reserve for root, no journal: nothing survives a crash anyway. The size is the limit.
            shape = ("-m", "0", "-N", str(files), "-O", "^has_journal", "-E", options)
            _run("mkfs.ext4", "-q", "-F", *shape, str(file))
            # The engine copies the image's files into an empty volume only.
            _run("debugfs", "-w", "-R", "rmdir lost+found", str(file))
            return cls(_run("losetup", "--find", "--show", str(file)))
        finally:
            file.unlink()

    def let_go(self) -> None:
        """Free it now, or with its last mount."""
        with contextlib.suppress(LoopError):  # freed by somebody else
            _run("losetup", "--detach", self.path)


def file_name(labels: Mapping[str, str]) -> str:
    """What the file of an attempt is called, from the labels of everything that belongs to it."""
    slot, _, token = labels.get("assize.attempt", "").partition("/")
    return f"assize-{labels.get('assize.home', '')}+{slot}+{token}.img"


def attempt_of(name: str) -> tuple[str, str] | None:
    """(home, `<slot>/<token>`) of a file's name; None for a file of somebody else."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], f"{found[2]}/{found[3]}")


def held_files(blocks: Path = _BLOCKS) -> dict[str, str]:
    """The file behind every loop device in use, by device; without the kernel's mark of a lost name."""
    found = {}
    for entry in sorted(blocks.glob("loop*/loop/backing_file")):
        with contextlib.suppress(OSError):  # freed in between
            found[f"/dev/{entry.parent.parent.name}"] = entry.read_text().strip().removesuffix(" (deleted)")
    return found


def reap_loops(is_ours: Callable[[str], bool], blocks: Path = _BLOCKS) -> list[str]:
    """Free every device whose file's name `is_ours` says yes to; returns the devices."""
    freed = []
    for device, file in held_files(blocks).items():
        if is_ours(Path(file).name):
            LoopDevice(device).let_go()
            freed.append(device)
    return freed
