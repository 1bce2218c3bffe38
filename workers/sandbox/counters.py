"""cgroup counters of a live container, read from the host's own cgroup file system (v1 or v2).

They are read before the container is killed, because the cgroup goes away with it. A file that cannot be
read gives None: "not observed", which `faults` never takes for "no".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Counters:
    """OOM kills inside the limit, peak memory in bytes, and how often the pids limit refused a fork."""

    oom_kills: int | None
    max_memory_bytes: int | None
    pids_limit_hits: int | None


def _keyed(path: Path, key: str) -> int | None:
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    except (OSError, ValueError):
        return None
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _v2_folder(container_id: str, root: Path) -> Path | None:
    for candidate in (
        root / "system.slice" / f"docker-{container_id}.scope",
        root / "docker" / container_id,
    ):
        if candidate.is_dir():
            return candidate
    return None


def set_limits(container_id: str, root: Path = _ROOT) -> dict[str, int | None]:
    """`memoryBytes` and `pids` as the kernel has them for the container; None for one that is not set."""
    memory = root / "memory" / "docker" / container_id
    if memory.is_dir():
        pids = root / "pids" / "docker" / container_id / "pids.max"
        return {"memoryBytes": _number(memory / "memory.limit_in_bytes"), "pids": _number(pids)}
    folder = _v2_folder(container_id, root)
    if folder is None:
        return {"memoryBytes": None, "pids": None}
    return {"memoryBytes": _number(folder / "memory.max"), "pids": _number(folder / "pids.max")}


def read_counters(container_id: str, root: Path = _ROOT) -> Counters:
    """Counters of the container's own cgroup."""
    memory = root / "memory" / "docker" / container_id
    if memory.is_dir():
        return Counters(
            _keyed(memory / "memory.oom_control", "oom_kill"),
            _number(memory / "memory.max_usage_in_bytes"),
            _keyed(root / "pids" / "docker" / container_id / "pids.events", "max"),
        )
    folder = _v2_folder(container_id, root)
    if folder is None:
        return Counters(None, None, None)
    return Counters(
        _keyed(folder / "memory.events", "oom_kill"),
        _number(folder / "memory.peak"),
        _keyed(folder / "pids.events", "max"),
    )
