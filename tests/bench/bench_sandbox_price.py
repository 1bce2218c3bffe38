"""What each option of the hardened profile costs, and each disk, against the bare SDK floor of the same run.

Options: one container from create to removal, with one command in it. `bare` asks the engine for nothing but
the image; every other line is the hardened container without (or with) one thing, and what that takes.
Disks: a whole try of the product, against create, start, exec and remove of the same containers by docker-py
alone: two for a writable root, a holder beside them for a sized one. Rounds are interleaved; a figure is the
median over the rounds.
"""

from __future__ import annotations

import copy
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import docker

from orchestrator.home import Home
from orchestrator.planning.conditions import DiskCondition
from orchestrator.screenings.installation import Installation
from workers.sandbox.profile import Limits, create_body

if TYPE_CHECKING:
    from tests.bench import bench_trivial_try as trivial
else:
    import bench_trivial_try as trivial

Client = docker.APIClient
Host = dict[str, Any]
MIB: Final = 1 << 20
ROUNDS: Final = 15
DISK_ROUNDS: Final = 3
WALL_BAR: Final = 1.3
SHAPES: Final = {1: 4, 4: 8}
_MODES: Final[tuple[Literal["writable", "strict", "loop"], ...]] = ("writable", "strict", "loop")
_LIMITS: Final = Limits(512 * MIB, 1000, 512, 300)
_MINUTE: Final = Limits(64 * MIB, 1000, 16, 300)


def _without(*names: str) -> Callable[[Host], None]:
    def change(host: Host) -> None:
        for name in names:
            host.pop(name, None)

    return change


def _with(**values: Any) -> Callable[[Host], None]:
    return lambda host: host.update(values)


def _no_filter(host: Host) -> None:
    host["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]


def _engines_filter(host: Host) -> None:
    host["SecurityOpt"] = ["no-new-privileges:true"]


VARIANTS: Final[Mapping[str, Callable[[Host], None]]] = {
    "hardened": lambda host: None,
    "on the engine's bridge": _without("NetworkMode"),
    "without a filter": _no_filter,
    "with the engine's filter": _engines_filter,
    "without no-new-privileges": _with(SecurityOpt=[]),
    "with all capabilities of the engine's default": _without("CapDrop", "CapAdd"),
    "without init": _with(Init=False),
    "without memory, cpu and pids limits": _without("Memory", "MemorySwap", "NanoCpus", "PidsLimit"),
    "without ulimits": _without("Ulimits"),
    "without a log": _with(LogConfig={"Type": "none", "Config": {}}),
    "with a read-only root and small tmpfs": _with(
        ReadonlyRootfs=True, Tmpfs={"/tmp": "rw,size=16m", "/run": "rw,size=16m", "/var/tmp": "rw,size=16m"}
    ),
}


def bodies(image: str) -> dict[str, dict[str, Any]]:
    """Create bodies by name; `bare` first."""
    whole = create_body(image, _LIMITS, runtime="runc", grader=False, labels={}, volumes={}, workdir=None)
    bare: dict[str, Any] = {"Image": image, "Entrypoint": ["sleep"], "Cmd": ["300"], "HostConfig": {}}
    found: dict[str, dict[str, Any]] = {"bare": bare}
    for name, change in VARIANTS.items():
        found[name] = copy.deepcopy(whole)
        change(found[name]["HostConfig"])
    return found


def one_container(client: Client, body: Mapping[str, Any], command: str | None = "true") -> float:
    """Milliseconds from create to removal."""
    began = time.monotonic()
    made = client.create_container_from_config(dict(body))["Id"]  # type: ignore[no-untyped-call]
    client.start(made)
    if command is not None:
        started = client.exec_create(made, ["sh", "-c", command], user="0:0")["Id"]
        client.exec_start(started)
        client.exec_inspect(started)
    client.remove_container(made, force=True)
    return (time.monotonic() - began) * 1000


def option_prices(client: Client, image: str) -> None:
    """One line for each variant: its milliseconds, and its difference to the hardened container."""
    found = bodies(image)
    took: dict[str, list[float]] = {name: [] for name in found}
    for body in found.values():  # once for nothing: the engine reads what it needs
        one_container(client, body)
    for _ in range(ROUNDS):
        for name, body in found.items():
            took[name].append(one_container(client, body))
    for name, times in took.items():
        more = [one - hardened for one, hardened in zip(times, took["hardened"], strict=True)]
        line = {
            "name": f"container: {name}",
            "ms": round(statistics.median(times), 1),
            "against_hardened_ms": round(statistics.median(more), 1),
        }
        click.echo(json.dumps(line))


def floor(client: Client, image: str, mode: str, tries: int, parallel: int) -> float:
    """Seconds for the same containers as a try has, and nothing else."""

    def one(_: int) -> None:
        holder = None
        if mode != "writable":
            body = create_body(
                image, _MINUTE, runtime="runc", grader=False, labels={}, volumes={}, workdir="/"
            )
            holder = client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
            client.start(holder)
        trivial.floor_try(client, image)
        if holder is not None:
            client.remove_container(holder, force=True)

    began = time.monotonic()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(one, range(tries)))
    return time.monotonic() - began


def disk_prices(client: Client, image: str, installation: Installation, pack: Any) -> bool:
    """One line for each disk and shape; False where the bar is missed."""
    good = True
    for parallel, tries in SHAPES.items():
        ratios: dict[str, list[float]] = {}
        walls: dict[str, list[float]] = {}
        for _ in range(DISK_ROUNDS):
            for mode in _MODES:
                bare = floor(client, image, mode, tries, parallel)
                disk = DiskCondition(mode=mode, bytes=64 * MIB, files=4_000)
                wall, _ = trivial.our_arm(installation, pack, tries, parallel, disk)
                ratios.setdefault(mode, []).append(wall / bare)
                walls.setdefault(mode, []).append(wall / tries)
        for disk_mode, found in ratios.items():
            shape = "serial" if parallel == 1 else f"{parallel}-parallel"
            good &= trivial.report(
                f"disk-{disk_mode}-{shape}",
                statistics.median(found),
                WALL_BAR,
                "x of the SDK floor",
                wall_s=round(statistics.median(walls[disk_mode]), 3),
            )
    return good


def main() -> None:
    """Options first, then disks; 1 where a bar is missed."""
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation.open(Home(Path(folder) / "home"))
        pack = trivial.make_pack(Path(folder) / "pack")
        trivial.our_arm(installation, pack, 1, 1)
        lock = json.loads(installation.home.images_lock.read_text())
        image = next(v["id"] for k, v in lock["images"].items() if k.startswith("assize/task:"))
        client = docker.APIClient(max_pool_size=16)
        option_prices(client, image)
        good = disk_prices(client, image, installation, pack)
        client.close()
        installation.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
