"""Wall and client CPU per trivial try, against the bare Docker SDK floor of the same two containers.

One try of ours = claim, agent container, verifier container, evidence, record, signature, bundle. The
floor = create, start, exec, remove of the same two containers with the same limits, by docker-py alone.
Both arms run interleaved in this process; a ratio is the median over the rounds.

The floor's containers have the network `none` that an engine makes (what DESIGN's floors were measured with).
We leave the engine's network code out of the verifier's. What is left of the ratio when the floor does that
too is told as `ratio_against_our_option`, without a bar.
"""

from __future__ import annotations

import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import docker

from orchestrator.agents import registry
from orchestrator.home import Home
from orchestrator.packs.pack import Pack, implicit_pack
from orchestrator.planning.conditions import DiskCondition, ScreeningConditions
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import hardware_class, launch, run
from orchestrator.screenings.opening import Sponsors
from workers.sandbox.profile import Limits, create_body

ROUNDS = 4
TRIES = {1: 6, 4: 12}
WALL_BAR, CPU_BAR_S = 1.3, 0.10
MIB = 1 << 20


def make_pack(root: Path) -> Pack:
    """One task whose work and test are one line each."""
    task = root / "trivial"
    for folder, name, text in (
        ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
        ("solution", "solve.sh", "echo done > /app/out.txt\n"),
        ("tests", "test.sh", "[ -f /app/out.txt ] && echo 1 > /logs/verifier/reward.txt\n"),
    ):
        (task / folder).mkdir(parents=True)
        (task / folder / name).write_text(text)
    (task / "instruction.md").write_text("Create /app/out.txt.\n")
    (task / "task.toml").write_text(
        'schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n[environment]\ncpus = 1\nmemory_mb = 512\n'
    )
    return implicit_pack(root)


def floor_try(client: docker.APIClient, image: str, ours: bool = False) -> None:
    """The same two containers, nothing else; `ours`: with our option for the verifier's."""
    for grader, command in ((False, "echo done > /app/out.txt"), (True, "test -d /app")):
        body = create_body(
            image,
            Limits(512 * MIB, 1000, 512, 300),
            runtime="runc",
            grader=grader,
            labels={},
            volumes={},
            workdir=None,
            engine_network=not (ours and grader),
        )
        made = client.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
        client.start(made)
        started = client.exec_create(made, ["bash", "-c", command], user="0:0")["Id"]
        client.exec_start(started)
        client.exec_inspect(started)
        client.remove_container(made, force=True)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """(wall seconds, own CPU seconds) of `work`."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    work()
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def floor_arm(
    client: docker.APIClient, image: str, tries: int, parallel: int, ours: bool = False
) -> tuple[float, float]:
    def work() -> None:
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(lambda _: floor_try(client, image, ours), range(tries)))

    return timed(work)


def our_arm(
    installation: Installation, pack: Pack, tries: int, parallel: int, disk: DiskCondition | None = None
) -> tuple[float, float]:
    """(wall seconds, own CPU seconds) of a screening of so many tries."""
    disk = disk or DiskCondition()
    conditions = ScreeningConditions(tries=tries, hardware_class=hardware_class(), disk=disk)
    agent = registry.resolve(installation.home, "oracle")
    sponsors = Sponsors("bench:local", "bench:local", "bench:local")
    planned = launch(installation, pack, [agent], conditions, sponsors, again=True, say=lambda line: None)

    def work() -> None:
        outcome = run(
            installation,
            planned,
            parallel=parallel,
            progress=lambda event: None,
            guard=lambda engine: contextlib.nullcontext(),
        )
        if set(outcome.result.states.values()) != {"complete"} or outcome.warnings:
            raise SystemExit(f"the bench's own screening did not complete: {outcome}")

    return timed(work)


def report(name: str, ratio: float, bar: float, unit: str, **more: float) -> bool:
    """One JSON line; False when the bar is missed."""
    line = {"name": name, "ratio": round(ratio, 3), "bar": bar, "unit": unit, "ok": ratio <= bar, **more}
    click.echo(json.dumps(line))
    return ratio <= bar


def main() -> None:
    """Run both arms at 1 and 4 parallel tries."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation.open(Home(Path(folder) / "home"))
        pack = make_pack(Path(folder) / "pack")
        our_arm(installation, pack, 1, 1)
        image = json.loads(installation.home.images_lock.read_text())
        client = docker.APIClient(max_pool_size=16)
        image_id = next(v["id"] for k, v in image["images"].items() if k.startswith("assize/task:"))
        for parallel, tries in TRIES.items():
            ratios, own_ratios, cpu, walls, floors = [], [], [], [], []
            for _ in range(ROUNDS):
                floor_wall, _floor_cpu = floor_arm(client, image_id, tries, parallel)
                wall, used = our_arm(installation, pack, tries, parallel)
                ratios.append(wall / floor_wall)
                own_ratios.append(wall / floor_arm(client, image_id, tries, parallel, ours=True)[0])
                cpu.append(used / tries)
                walls.append(wall / tries)
                floors.append(floor_wall / tries)
            shape = "serial" if parallel == 1 else f"{parallel}-parallel"
            good &= report(
                f"wall-per-trivial-try-{shape}",
                statistics.median(ratios),
                WALL_BAR,
                "x of the SDK floor",
                wall_s=round(statistics.median(walls), 3),
                floor_s=round(statistics.median(floors), 3),
                ratio_against_our_option=round(statistics.median(own_ratios), 3),
            )
            good &= report(
                f"client-cpu-per-trivial-try-{shape}", statistics.median(cpu), CPU_BAR_S, "CPU s per try"
            )
        client.close()
        installation.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
