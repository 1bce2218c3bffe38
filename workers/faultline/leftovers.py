"""What a home left on this machine: nothing, if everything went well."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from orchestrator.relay_folders import PREFIX, places
from workers.sandbox.bundles import LIVE_KIND
from workers.sandbox.client import Engine, translated
from workers.sandbox.reaper import ATTEMPT_LABEL, HOME_LABEL

_MOUNTS: Final = Path("/proc/self/mounts")
_LOOPS: Final = Path("/sys/block")


def in_engine(engine: Engine, home: str) -> list[str]:
    """Everything with the home's label; the volume of a registered agent's bundle is its own to keep."""
    label = {"label": f"{HOME_LABEL}={home}"}
    with translated("list"):
        containers = engine.api.containers(all=True, filters=label)
        networks = engine.api.networks(filters=label)
        volumes = engine.api.volumes(filters=label)["Volumes"] or []
        images = engine.api.images(filters=label)
    found = [f"container {one['Id'][:12]} ({one['State']})" for one in containers]
    found += [f"network {one['Name']}" for one in networks]
    found += [
        f"volume {one['Name']}"
        for one in volumes
        if not str((one.get("Labels") or {}).get(ATTEMPT_LABEL)).startswith(LIVE_KIND)
    ]
    return [*found, *(f"image {one['Id'][:19]}" for one in images)]


def relay_folders() -> frozenset[Path]:
    """Socket folders of this process's relays."""
    mine = f"{PREFIX}{os.getpid()}-*"
    return frozenset(one for parent in places() for one in parent.glob(mine))


def on_host(folder: Path, before: frozenset[Path] = frozenset()) -> list[str]:
    """Mounts below `folder`, loop devices over its files, and relay folders that were not there `before`."""
    inside = str(folder.resolve())
    mounts = [line.split()[1] for line in _MOUNTS.read_text().splitlines()]
    found = [f"mount {place}" for place in mounts if place.startswith(f"{inside}/")]
    for backing in sorted(_LOOPS.glob("loop*/loop/backing_file")):
        name = backing.read_text().strip()
        if name.startswith(f"{inside}/"):
            found.append(f"loop device {backing.parts[-3]} over {name}")
    return [*found, *(f"relay folder {one}" for one in sorted(relay_folders() - before))]
