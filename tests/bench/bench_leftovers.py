"""200 tries back to back leave disk, inodes, objects and mounts where they were.

They run on a second engine whose folder nobody else writes to, so that bytes and files are counted and not
estimated on a shared disk; its own databases, logs and books are told apart. Every third agent leaves two
thousand files, every third is killed from outside.
The first tries, which make the prepared images that are kept, are not counted. What stays by design is the
evidence; its size is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orchestrator.attempts import AttemptOrder, AttemptReport, Caps
from orchestrator.ids import new_id
from scoring.vocabulary import Outcome
from workers.attempt.runner import AttemptRunner
from workers.errors import WorkerError
from workers.faultline.leftovers import in_engine
from workers.faultline.line import BASE_IMAGE
from workers.faultline.own_engine import OwnEngine
from workers.sandbox.client import Engine, translated

TRIES = 200
WARM_UP = 6
PARALLEL = 4
HOME = f"bench-{os.getpid()}"
MIB = 1 << 20
TEST = "[ -f /tmp/out.txt ] && echo 1 > /logs/verifier/reward.txt"
QUIET = "echo done > /tmp/out.txt"
MANY = f"mkdir /tmp/many && cd /tmp/many && seq 2000 | xargs touch && {QUIET}"
HELD = "sleep 600"


@dataclass(frozen=True)
class Room:
    """What a folder takes up; `folder_bytes` are the blocks of the folders themselves, not in `bytes`.

    ext4 gives a folder another block when it once held many names, and never takes it back: that is told,
    and no leftover. Names that stay are inodes that stay.
    """

    bytes: int
    inodes: int
    folder_bytes: int = 0

    @classmethod
    def of(cls, *folders: Path) -> Room:
        """Blocks and inodes, each file once; what goes away meanwhile is not counted."""
        seen: set[tuple[int, int]] = set()
        size = folder_size = 0
        for folder in folders:
            for root, folders_in, files in os.walk(folder):
                for name in (*folders_in, *files):
                    with contextlib.suppress(OSError):
                        found = os.lstat(os.path.join(root, name))
                        if (found.st_dev, found.st_ino) not in seen:
                            seen.add((found.st_dev, found.st_ino))
                            blocks = found.st_blocks * 512
                            size += 0 if stat.S_ISDIR(found.st_mode) else blocks
                            folder_size += blocks if stat.S_ISDIR(found.st_mode) else 0
        return cls(size, len(seen), folder_size)


class Quiet:
    """Nobody steers the attempts."""

    def phase(self, phase: object) -> None:
        """Not told."""

    def cancelled(self) -> bool:
        """Never."""
        return False

    def calls_until(self) -> None:
        """Without a bound."""


def order_of(folder: Path, image: str, solve: str) -> AttemptOrder:
    """An attempt of a task that is this one script."""
    name = hashlib.sha256(solve.encode()).hexdigest()[:16]
    task = folder / name
    if not task.exists():
        (task / "tests").mkdir(parents=True)
        (task / "solution").mkdir()
        (task / "tests" / "test.sh").write_text(TEST)
        (task / "solution" / "solve.sh").write_text(solve)
    slot = new_id()
    return AttemptOrder(
        screening_id=slot,
        slot_id=slot,
        attempt_id=new_id(),
        token=1,
        attempt=1,
        task_id="bench",
        index=1,
        task_dir=task,
        task_digest=hashlib.sha256(f"{solve}\0{TEST}".encode()).hexdigest(),
        instruction="Create /tmp/out.txt.\n",
        test_files=("test.sh",),
        solution_files=("solve.sh",),
        agent={"kind": "oracle"},
        bundle_dir=None,
        bundle_digest=None,
        agent_image=image,
        grader_image=image,
        grader_has_tests=False,
        separate=False,
        agent_user=None,
        workdir="/tmp",
        caps=Caps(60_000, 60_000, 256 * MIB, 1000, 128, MIB, 64 * MIB),
        grading="fresh",
        artifacts=(),
        environment={},
        solution_environment={},
        grader_environment={},
        grader_user=None,
        reward_key="reward",
        reward_at_least="1",
        reward_max="1",
        grader_proven=True,
        runtime="runc",
        evidence_root=folder / "evidence",
        labels={"assize.home": HOME, "assize.screening": "bench", "assize.attempt": f"{slot}/1"},
    )


def struck(engine: Engine, runner: AttemptRunner, order: AttemptOrder) -> AttemptReport:
    """An attempt whose sandbox is killed from outside as soon as it is there."""
    over = threading.Event()

    def strike() -> None:
        label = {"label": [f"assize.attempt={order.slot_id}/1", "assize.role=agent"]}
        while not over.wait(0.1):
            with contextlib.suppress(WorkerError), translated("kill"):
                for found in engine.api.containers(filters=label):
                    engine.api.kill(found["Id"])

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        return runner(order, Quiet())
    finally:
        over.set()
        thread.join()


def run(own: OwnEngine, runner: AttemptRunner, folder: Path, image: str, tries: int) -> dict[str, int]:
    """So many tries of the three kinds; how they ended."""

    def one(number: int) -> str:
        kind = (QUIET, MANY, HELD)[number % 3]
        order = order_of(folder, image, kind)
        report = struck(own.engine, runner, order) if kind is HELD else runner(order, Quiet())
        return report.decision.outcome.value

    with ThreadPoolExecutor(PARALLEL) as pool:
        ends = list(pool.map(one, range(tries)))
    assert runner.settle() == []
    return {end.value: ends.count(end.value) for end in Outcome}


def sizes_below(folder: Path) -> dict[str, int]:
    """Bytes on the disk of every file of the engine's own, layers apart."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "overlay2" or "image" in root]
        for name in files:
            with contextlib.suppress(OSError):
                path = Path(root) / name
                found[str(path.relative_to(folder))] = path.lstat().st_blocks * 512
    return found


def books_of(own: OwnEngine) -> int:
    """Bytes of the engine's logs and of containerd's own database."""
    return Room.of(own.root / "containerd").bytes + sum(one.stat().st_size for one in own.root.glob("*.log"))


def mounts_below(folder: Path) -> int:
    """Mounts that the engine holds."""
    return sum(line.split()[1].startswith(f"{folder}/") for line in Path("/proc/mounts").open())


def settled(measure: Callable[[], Room]) -> Room:
    """The least of some looks: the engine frees layers and compacts its books a moment later."""
    looks = []
    for _ in range(5):
        looks.append(measure())
        time.sleep(0.5)
    return Room(
        min(one.bytes for one in looks),
        min(one.inodes for one in looks),
        min(one.folder_bytes for one in looks),
    )


def main(tries: int = TRIES) -> int:
    """Print one JSON line; 1 when anything is left."""
    first = Engine()
    with tempfile.TemporaryDirectory() as name, OwnEngine(first, BASE_IMAGE) as own:
        folder = Path(name)
        (folder / "evidence").mkdir()
        runner = AttemptRunner(own.host)
        image = str(own.engine.find_image(BASE_IMAGE)["Id"])
        run(own, runner, folder, image, WARM_UP)

        def engine_room() -> Room:
            # Not its books and logs, which are told apart, nor exec/netns: the engine empties it by itself.
            return Room.of(own.data, own.root / "containerd-run")

        sizes = sizes_below(own.data)
        before, mounts, books = settled(engine_room), mounts_below(own.root), books_of(own)
        kept = Room.of(folder)
        began = time.monotonic()
        ends = run(own, runner, folder, image, tries)
        wall_s = time.monotonic() - began
        after, mounts_after = settled(engine_room), mounts_below(own.root)
        evidence = Room.of(folder)
        grew = {name: size - sizes.get(name, 0) for name, size in sizes_below(own.data).items()}
        left, books_after = in_engine(own.engine, HOME), books_of(own)
        assert runner.close() == []
    first.close()
    databases = sum(size for name, size in grew.items() if name.endswith(".db"))
    grown = Room(after.bytes - before.bytes - databases, after.inodes - before.inodes)
    result = {
        "bench": "leftovers",
        "tries": tries,
        "ends": ends,
        "wall_s": round(wall_s, 1),
        "engine_bytes_before": before.bytes,
        "engine_bytes_grown": grown.bytes,
        "engine_folder_bytes_grown": after.folder_bytes - before.folder_bytes,
        "engine_inodes_before": before.inodes,
        "engine_inodes_grown": grown.inodes,
        "engine_books_bytes_grown": books_after - books + databases,
        "engine_files_grown": {name: size for name, size in grew.items() if size > 0},
        "mounts_grown": mounts_after - mounts,
        "left": left,
        "evidence_bytes_per_try": (evidence.bytes - kept.bytes) // tries,
        "evidence_files_per_try": round((evidence.inodes - kept.inodes) / tries, 2),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return int(bool(left) or mounts_after > mounts or grown.inodes > 0 or grown.bytes > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIES))
