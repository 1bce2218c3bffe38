"""A disk of a few kilobytes that can be filled up."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from workers.faultline.errors import FaultlineError

_SIZE: Final = "512k"
_PIECE: Final = 4096


class SmallDisk:
    """`with SmallDisk(folder) as disk:` mounts it at `folder` until the block ends; needs root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        _system("mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=700", "assize-drill", str(self.folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _system("umount", str(self.folder))
        self.folder.rmdir()

    def fill(self) -> None:
        """Write until the system says that nothing is left."""
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"\0" * _PIECE)
                except OSError:
                    return


def _system(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise FaultlineError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise FaultlineError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
