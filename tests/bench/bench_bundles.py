"""What a bundle costs: hashing and filling once per worker host, and a try with it against one without.

The bundle is made up: as large as a single-file agent (384 MiB), or of as many files as a Python agent
(20,000). Both arms of a try run interleaved in this process; the figure is the difference of their lower
quartiles, since whatever else the host does only ever adds.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from orchestrator.agents.bundle import read_bundle
from orchestrator.attempts import AttemptOrder, Caps
from orchestrator.ids import new_id
from scoring.vocabulary import Phase
from workers.attempt.runner import AttemptRunner

ROUNDS = 30
VOLUME_BAR_MS = 20
MIB = 1 << 20
HOME = "bench-bundles"


class Control:
    """Nobody watches, nobody cancels."""

    def phase(self, phase: Phase) -> None:
        """Nothing to do."""

    def cancelled(self) -> bool:
        return False


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


def order(root: Path, image: str, bundle: Path | None, digest: str | None) -> AttemptOrder:
    """A try whose agent and test are one line each."""
    slot, test = new_id(), "echo 1 > /logs/verifier/reward.txt"
    task = root / "task"
    (task / "tests").mkdir(parents=True, exist_ok=True)
    (task / "tests" / "test.sh").write_text(test)
    values: dict[str, Any] = dict.fromkeys(AttemptOrder.__dataclass_fields__)
    values |= {
        "screening_id": new_id(),
        "slot_id": slot,
        "attempt_id": new_id(),
        "token": 1,
        "attempt": 1,
        "task_id": "bench",
        "index": 1,
        "task_dir": task,
        "task_digest": hashlib.sha256(test.encode()).hexdigest(),
        "instruction": "Nothing.\n",
        "test_files": ("test.sh",),
        "solution_files": (),
        "agent": {"kind": "exec", "run": {"command": ["true"], "env": {}}},
        "bundle_dir": bundle,
        "bundle_digest": digest,
        "agent_image": image,
        "grader_image": image,
        "grader_has_tests": False,
        "separate": False,
        "agent_user": "1000:1000",
        "workdir": "/tmp",
        "caps": Caps(20_000, 20_000, 128 * MIB, 1000, 64, MIB, 8 * MIB),
        "grading": "fresh",
        "artifacts": (),
        "environment": {},
        "solution_environment": {},
        "grader_environment": {},
        "reward_key": "reward",
        "reward_at_least": "1",
        "reward_max": "1",
        "grader_proven": True,
        "runtime": "runc",
        "evidence_root": root / "evidence",
        "labels": {"assize.home": HOME, "assize.attempt": f"{slot}/1"},
        "gradings": 1,
    }
    return AttemptOrder(**values)


def timed_ms(runner: AttemptRunner, one: AttemptOrder) -> float:
    """Wall of one try in milliseconds."""
    began = time.perf_counter()
    report = runner(one, Control())
    wall = (time.perf_counter() - began) * 1000
    if report.reward != "1":
        raise SystemExit(f"the bench's own try did not pass: {report.observations}")
    return wall


def measure(runner: AttemptRunner, root: Path, image: str, bundle: Path) -> dict[str, float]:
    """Milliseconds: hashing, the first try beyond a usual one, and a later try beyond one without."""
    began = time.perf_counter()
    digest = read_bundle(bundle).digest
    hash_ms = (time.perf_counter() - began) * 1000
    timed_ms(runner, order(root, image, None, None))
    first = timed_ms(runner, order(root, image, bundle, digest))
    walls: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS):
        for bare in (True, False) if number % 2 else (False, True):
            one = (None, None) if bare else (bundle, digest)
            walls[bare].append(timed_ms(runner, order(root, image, *one)))
    with_volume, usual = (statistics.quantiles(walls[bare])[0] for bare in (False, True))
    return {
        "volume_ms": round(with_volume - usual, 1),
        "bare_ms": round(usual, 1),
        "hash_ms": round(hash_ms),
        "fill_ms": round(first - usual),
    }


def main() -> None:
    """Both kinds of bundle; exit 1 when a later try pays more than the bar for its volume."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        runner, root = AttemptRunner(), Path(folder)
        image = str(runner.station.engine.find_image("assize/base:1")["Id"])
        try:
            for name, bundle in (
                ("one-file", one_file(root / "one")),
                ("many-files", many_files(root / "many")),
            ):
                found = measure(runner, root, image, bundle)
                ok = found["volume_ms"] <= VOLUME_BAR_MS
                line = {"name": f"bundle-volume-per-try-{name}", "bar": VOLUME_BAR_MS, "unit": "ms", "ok": ok}
                click.echo(json.dumps({**line, **found}))
                good &= ok
        finally:
            runner.close()
            again = AttemptRunner()
            again.reap(HOME, lambda label: False)
            again.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
