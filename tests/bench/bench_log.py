"""Cost of the log against one Ed25519 verify of a 3 KB message, at 10^6 leaves (certificates.md section 7).

Append is the whole writer: keys compared, entries and tiles written and synced, checkpoints signed, in
batches. Its ratio is CPU of our own code (user mode); what the kernel spends on 7,800 files and their
syncs depends on the file system and the disk, and stands beside it as `with_kernel` and `wall`. Proofs
come from disk through the cache that a server would have, and count everything. The machine is shared,
so the floor is measured again between the parts and its median is used.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click

from orchestrator.certificates.keys import SigningKey
from orchestrator.log import tree
from orchestrator.log.checkpoint import LogKey, log_key
from orchestrator.log.entry import Position, check, statement_entry
from orchestrator.log.proof import LogVerifier
from orchestrator.log.reader import LogReader
from orchestrator.log.writer import LogWriter
from orchestrator.verification import ed25519

LEAVES, BATCH, PROOFS, TRIES, SCREENING = 1_000_000, 20_000, 500, 200, 66
ORIGIN = "assize.example/log/2026"
ROOT = Path(__file__).resolve().parents[2]
APPEND_BAR, MEMORY_BAR_MIB, PROOF_BAR, NEIGHBOUR_BAR, VERIFY_BAR = 0.03, 100, 4, 1, 0.25
RESUME_BAR = 20


def user_seconds() -> float:
    """CPU of this process outside the kernel."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


class Floor:
    """The raw verify, measured again and again."""

    def __init__(self) -> None:
        key = SigningKey.from_seed(bytes(32))
        self._message = bytes(3072)
        self._signature, self._public = key.sign(self._message), ed25519.public_key(key.public)
        self._samples: list[float] = []

    def measure(self, rounds: int = 200) -> None:
        began = time.process_time()
        for _ in range(rounds):
            self._public.verify(self._signature, self._message)
        self._samples.append((time.process_time() - began) / rounds)

    def seconds(self) -> float:
        """The median since the last call."""
        found = statistics.median(self._samples)
        self._samples.clear()
        return found


def report(name: str, value: float, bar: float, unit: str, **more: float) -> bool:
    """One JSON line; False when the bar is missed."""
    line = {"name": name, "ratio": round(value, 4), "bar": bar, "unit": unit, "ok": value <= bar, **more}
    click.echo(json.dumps(line))
    return value <= bar


def batch_of(template: tuple[bytes, bytes], start: int) -> list[bytes]:
    """Entries in the shape of real ones: screenings of `TRIES` tries, distinct digests."""
    head, middle = template
    return [
        b"%b%064x%b01JAA0000000000%012d task-%d 1 1\n" % (head, at, middle, at // TRIES, at % TRIES)
        for at in range(start, start + BATCH)
    ]


def make_template() -> tuple[bytes, bytes]:
    """A real entry, cut around its digest and its last line."""
    key = SigningKey.from_seed(bytes(32))
    entry = statement_entry(b"payload", key.keyid, key.sign(b"payload"), Position("0" * 26, "task-0", 1, 1))
    head, digest, signed, _ = entry.splitlines(keepends=True)
    template = head, digest[64:] + signed
    check(batch_of(template, 0)[-1])
    return template


def append_all(folder: Path, key: SigningKey, floor: Floor) -> bool:
    """Fill the log in batches; time and memory of the writer."""
    template, user, cpu, wall = make_template(), 0.0, 0.0, 0.0
    with LogWriter(folder / "log", folder / "state", ORIGIN, key) as writer:
        for start in range(0, LEAVES, BATCH):
            entries = batch_of(template, start)
            floor.measure(50)
            began = user_seconds(), time.process_time(), time.perf_counter()
            writer.append(entries)
            user += user_seconds() - began[0]
            cpu += time.process_time() - began[1]
            wall += time.perf_counter() - began[2]
    per_leaf = LEAVES * floor.seconds()
    good = report(
        "log-append-per-leaf",
        user / per_leaf,
        APPEND_BAR,
        "x of one Ed25519 verify",
        with_kernel=round(cpu / per_leaf, 4),
        wall=round(wall / per_leaf, 4),
        user_us=round(user / LEAVES * 1e6, 2),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return report("log-append-memory", peak, MEMORY_BAR_MIB, "MiB of the whole process") and good


def prove_all(folder: Path, key: SigningKey, floor: Floor) -> bool:
    """Random inclusion proofs from disk, and their verification."""
    log, draw = log_key(ORIGIN, key.public), random.Random(20261129)
    reader = LogReader(folder / "log", LogVerifier(log))
    wanted = [draw.randrange(LEAVES) for _ in range(PROOFS)]
    leaves = [tree.leaf_hash(reader.tiles.entry(index)) for index in wanted]
    reader = LogReader(folder / "log", LogVerifier(log))  # an empty cache
    floor.measure()
    began = time.process_time()
    proofs = [reader.prove(index) for index in wanted]
    made = (time.process_time() - began) / PROOFS
    floor.measure()
    head = reader.checkpoint
    began = time.process_time()
    for proof, leaf in zip(proofs, leaves, strict=True):
        tree.verify_inclusion(leaf, proof.index, head.size, proof.path, head.root)
    checked = (time.process_time() - began) / PROOFS
    floor.measure()
    verify = floor.seconds()
    unit = "x of one Ed25519 verify"
    good = report("log-inclusion-proof-from-disk", made / verify, PROOF_BAR, unit, us=round(made * 1e6, 1))
    good = screening_of(folder, log, draw, floor) and good
    return (
        report("log-verify-inclusion", checked / verify, VERIFY_BAR, unit, us=round(checked * 1e6, 1))
        and good
    )


def screening_of(folder: Path, log: LogKey, draw: random.Random, floor: Floor) -> bool:
    """The proofs of a screening's consecutive entries, each time from an empty cache; the best of several."""
    best, unit = float("inf"), "x of one Ed25519 verify, per proof"
    for _ in range(20):
        reader, first = LogReader(folder / "log", LogVerifier(log)), draw.randrange(LEAVES - SCREENING)
        began = time.process_time()
        for index in range(first, first + SCREENING):
            reader.prove(index)
        best = min(best, (time.process_time() - began) / SCREENING)
        floor.measure(50)
    return report(
        "log-66-proofs-of-a-screening", best / floor.seconds(), NEIGHBOUR_BAR, unit, us=round(best * 1e6, 1)
    )


def resume(folder: Path, key: SigningKey, floor: Floor) -> bool:
    """Opening the log of 10^6 once, and taking it up again for a further entry, as a signer does."""
    began = time.process_time()
    with LogWriter(folder / "log", folder / "state", ORIGIN, key) as writer:
        opened, times = time.process_time() - began, []
        for _ in range(50):
            writer.release()
            floor.measure(20)
            began = time.process_time()
            writer.resume()
            times.append(time.process_time() - began)
    again, verify = min(times), floor.seconds()
    unit = "x of one Ed25519 verify"
    more = {"us": round(again * 1e6, 1), "first_opening_s": round(opened, 2)}
    return report("log-taken-up-again", again / verify, RESUME_BAR, unit, **more)


def main() -> None:
    """All parts on one log of 10^6 leaves, on the disk that the repository is on."""
    key, floor = SigningKey.from_seed(bytes(range(32))), Floor()
    with tempfile.TemporaryDirectory(
        prefix=".bench-log-", dir=os.environ.get("ASSIZE_BENCH") or ROOT
    ) as name:
        good = append_all(Path(name), key, floor)
        good = prove_all(Path(name), key, floor) and good
        good = resume(Path(name), key, floor) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
