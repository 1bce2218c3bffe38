"""Cost of verifying a logged screening of 60 certificates against 60 raw Ed25519 verifies.

Everything that `assize verify --no-evidence` does with the bytes of a screening bundle: strict zip, strict
JSON, signatures, log entries and proofs under one checkpoint, manifests, accounting (certificates.md
section 7). The floor is the raw verify of the same 60 signatures. Also the audit of a whole log with its
statements against one raw verify per entry. CPU of this process, the minimum over alternating rounds.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.certificates import bundle, dsse, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.verification import ed25519

ROOT = Path(__file__).resolve().parents[2]

if TYPE_CHECKING:
    from tests.assets.certificates.certificate_world import PASS, World, key, trust_root

    Log: Any  # its module imports a neighbour by plain name, which is checked on a path of its own
else:
    sys.path[:0] = [str(ROOT / "tests" / "assets" / "certificates")]
    from certificate_log import Log
    from certificate_world import PASS, World, key, trust_root

TASKS, TRIES, ROUNDS, OTHERS = 20, 3, 60, 5_000
VERIFY_BAR, AUDIT_BAR = 3.0, 4.0


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def report(name: str, ratio: float, bar: float, unit: str, **more: float) -> bool:
    """One JSON line; False when the bar is missed."""
    line = {"name": name, "ratio": round(ratio, 3), "bar": bar, "unit": unit, "ok": ratio <= bar, **more}
    click.echo(json.dumps(line))
    return ratio <= bar


def main() -> None:
    """One screening of 60 certificates among 5,000 entries of others."""
    with tempfile.TemporaryDirectory() as folder:
        good = measure(Path(folder))
    sys.exit(0 if good else 1)


def measure(folder: Path) -> bool:
    """Both ratios."""
    world = World(folder / "store")
    root = trust.parse(trust_root(logged=True))
    names = tuple(f"task-{number:02}" for number in range(TASKS))
    shot = world.screening("bench", tasks=names)
    for task in names:
        for index in range(1, TRIES + 1):
            shot.run(task, index, PASS)
    tries = [signed.envelope for signed, _ in shot.certificates]
    opening, summary = shot.opening.envelope, shot.summary().envelope
    log = Log(root).fill(OTHERS).enter(opening, *tries, summary)
    plain = bundle.encode_screening(opening, shot.tries(), summary)
    raw = bundle.encode_screening(opening, shot.tries(), summary, log.shared(opening, tries, summary))
    public = ed25519.public_key(key("cert").public)
    pairs = []
    for envelope in tries:
        opened = dsse.decode(envelope, dsse.STATEMENT_TYPE, 1 << 20)
        pairs.append((opened.signatures[0][1], opened.signed_bytes()))

    def floor() -> None:
        for signature, signed in pairs:
            public.verify(signature, signed)

    def whole() -> None:
        if verify_screening_bundle(raw, root).exit_code != 0:
            raise SystemExit("the bench's own screening does not verify")

    unlogged = trust.parse(trust_root())
    gc.collect()
    gc.freeze()  # what this bench made beforehand is not what a verification collects
    floors, times, plains = [], [], []
    for _ in range(ROUNDS):
        floors.append(cpu(floor))
        times.append(cpu(whole))
        plains.append(cpu(lambda: verify_screening_bundle(plain, unlogged)))
    unit = "x of 60 raw Ed25519 verifies"
    ratio = min(times) / min(floors)
    good = report(
        "verify-screening-60",
        ratio,
        VERIFY_BAR,
        unit,
        ms=round(min(times) * 1000, 2),
        without_log=round(min(plains) / min(floors), 3),
    )
    own = Log(root).enter(opening, *tries, summary).write(folder / "log")
    audits = [cpu(lambda: audit_log(own, root)) for _ in range(ROUNDS)]
    if audit_log(own, root).exit_code != 0:
        raise SystemExit("the bench's own log does not hold")
    per_entry = min(audits) / (len(tries) + 2) / (min(floors) / len(tries))
    return report("audit-per-statement", per_entry, AUDIT_BAR, "x of one raw Ed25519 verify") and good


if __name__ == "__main__":
    main()
