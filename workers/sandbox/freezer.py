"""Holds a container still from the host's side: its cgroup is frozen (v1 `freezer`, v2 `cgroup.freeze`).

The engine's own pause does the same through three processes and tells it as an event. A frozen process runs
no instruction more, so that what it wrote can be measured; one inside of a long system call is frozen when
that call ends, and a kill ends the call at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")


def _first(*folders: Path) -> Path | None:
    return next((folder for folder in folders if folder.is_dir()), None)


@dataclass(frozen=True)
class Freezer:
    """The cgroup of one container; every method raises `OSError` once the container is gone."""

    folder: Path
    legacy: bool

    @classmethod
    def of(cls, container_id: str, root: Path = _ROOT) -> Freezer | None:
        """The freezer of a started container; None where this process may not use it."""
        scope = f"docker-{container_id}.scope"
        own = root / "freezer"
        folder = _first(own / "docker" / container_id, own / "system.slice" / scope)
        legacy = folder is not None
        if folder is None:
            folder = _first(root / "system.slice" / scope, root / "docker" / container_id)
        if folder is None:
            return None
        made = cls(folder, legacy)
        return made if os.access(made._switch, os.W_OK) else None

    @property
    def _switch(self) -> Path:
        return self.folder / ("freezer.state" if self.legacy else "cgroup.freeze")

    def freeze(self) -> None:
        """Begin; `is_frozen` tells when everything stands still."""
        self._switch.write_text("FROZEN" if self.legacy else "1")

    def is_frozen(self) -> bool:
        """Whether every process inside stands still; as long as not, the kernel is asked again."""
        if self.legacy:
            said = self._switch.read_text().strip()
            if said == "FREEZING":
                # The kernel passes over who forks in that very moment (vfork), for ever: it has to be asked
                # again (measured: a shell's loop of commands stood half frozen until then).
                self.freeze()
            return said == "FROZEN"
        return "frozen 1" in (self.folder / "cgroup.events").read_text().splitlines()

    def thaw(self) -> None:
        """Let everything go on."""
        self._switch.write_text("THAWED" if self.legacy else "0")

    def pids(self) -> list[int]:
        """Every process inside, as the host counts them."""
        return [int(word) for word in (self.folder / "cgroup.procs").read_text().split()]

    def kill_all_but(self, spared: frozenset[int]) -> None:
        """Kill every process but those; frozen ones die when they are thawed, and run nothing before."""
        for pid in self.pids():
            if pid not in spared:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
