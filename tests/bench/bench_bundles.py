"""What a bundle costs: hashing and filling once per worker host, and a sandbox with it against one without.

The bundle is made up: as large as a single-file agent (384 MiB), or of as many files as a Python agent
(20,000). A volume's part of a try is asking for it, and what it adds to making and starting the sandbox; the
rest of a try is the same. Both arms run interleaved; the figure is the median of the paired differences.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click

from orchestrator.agents.bundle import read_bundle
from workers.sandbox.bundles import BundleVolumes
from workers.sandbox.client import Engine
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.reaper import ATTEMPT_LABEL, HOME_LABEL, reap

ROUNDS = 40
VOLUME_BAR_MS = 20
MIB = 1 << 20
HOME = "bench-bundles"


def one_file(folder: Path) -> Path:
    """384 MiB in one file."""
    folder.mkdir()
    chunk = random.Random(8).randbytes(MIB)
    with (folder / "agent").open("wb") as out:
        for number in range(384):
            out.write(number.to_bytes(8, "big") + chunk[8:])
    return folder


def many_files(folder: Path) -> Path:
    """20,000 files of 20 KiB in 500 folders."""
    content = random.Random(8).randbytes(20_480)
    for package in range(500):
        (folder / str(package)).mkdir(parents=True)
        for number in range(40):
            (folder / str(package) / f"{number}.py").write_bytes(content + str((package, number)).encode())
    return folder


def started_ms(volumes: BundleVolumes, engine: Engine, image: str, bundle: Path, digest: str | None) -> float:
    """Milliseconds until a sandbox runs, with the bundle's volume or (no digest) without; it is removed."""
    began = time.perf_counter()
    name = volumes.ensure(bundle, digest, image)
    body = create_body(
        image,
        Limits(128 * MIB, 1000, 64, 300),
        runtime="runc",
        grader=False,
        labels=engine.owner_labels,
        volumes={name: "/opt/agent"} if name else {},
        workdir=None,
    )
    made = engine.api.create_container_from_config(body)["Id"]  # type: ignore[no-untyped-call]
    engine.api.start(made)
    wall = (time.perf_counter() - began) * 1000
    engine.api.remove_container(made, force=True)
    return wall


def measure(engine: Engine, image: str, bundle: Path) -> dict[str, float]:
    """Milliseconds: hashing, filling, and what a later try pays."""
    began = time.perf_counter()
    digest = read_bundle(bundle).digest
    hash_ms = (time.perf_counter() - began) * 1000
    volumes = BundleVolumes(engine)
    began = time.perf_counter()
    volumes.ensure(bundle, digest, image)
    fill_ms = (time.perf_counter() - began) * 1000
    differences = []
    for number in range(ROUNDS):
        walls = {
            wanted: started_ms(volumes, engine, image, bundle, wanted)
            for wanted in ((None, digest) if number % 2 else (digest, None))
        }
        differences.append(walls[digest] - walls[None])
    volume_ms = round(statistics.median(differences), 1)
    return {"volume_ms": volume_ms, "hash_ms": round(hash_ms), "fill_ms": round(fill_ms)}


def main() -> None:
    """Both kinds of bundle; exit 1 when a later try pays more than the bar for its volume."""
    good = True
    engine = Engine()
    engine.owner_labels = {HOME_LABEL: HOME, ATTEMPT_LABEL: "owner/bench"}
    image = str(engine.find_image("assize/base:1")["Id"])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        try:
            for name, bundle in (
                ("one-file", one_file(root / "one")),
                ("many-files", many_files(root / "many")),
            ):
                found = measure(engine, image, bundle)
                ok = found["volume_ms"] <= VOLUME_BAR_MS
                line = {"name": f"bundle-volume-per-try-{name}", "bar": VOLUME_BAR_MS, "unit": "ms", "ok": ok}
                click.echo(json.dumps({**line, **found}))
                good &= ok
        finally:
            reap(engine, HOME, lambda label: False)
            engine.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
