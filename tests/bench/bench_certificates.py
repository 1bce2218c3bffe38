"""Cost of issuing, of a cold `assize verify`, of hashing evidence, and of auditing many statements.

Bars: certificates.md section 7 and issue 5. Issuing is what follows the checks of the evidence: canonical
bytes, PAE, signature, envelope, against a raw Ed25519 signature of the same bytes. A cold verify is a new
process with all its imports. An audit is measured at two sizes; what each further statement costs is the
slope between them, which is what 10^5 of them extrapolate to. CPU of this process, the minimum over
alternating rounds; of a new process the CPU of all of it, which is its wall on a machine that is not busy
(that stands beside it).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import canonical
from orchestrator.certificates import bundle, dsse, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification import ed25519

ROOT = Path(__file__).resolve().parents[2]

if TYPE_CHECKING:
    from tests.assets.certificates.certificate_world import PASS, World, key, payload_of, resign, trust_root

    Log: Any  # its module imports a neighbour by plain name, which is checked on a path of its own
else:
    sys.path[:0] = [str(ROOT / "tests" / "assets" / "certificates")]
    from certificate_log import Log
    from certificate_world import PASS, World, key, payload_of, resign, trust_root

ISSUE_BAR, COLD_BAR_MS, EVIDENCE_BAR, AUDIT_BAR = 3.0, 150.0, 1.2, 4.0
ROUNDS, COLD_RUNS, EVIDENCE_MIB, SIZES, FULL = 60, 15, 64, (1_000, 5_000), 100_000


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def children_seconds() -> float:
    """CPU of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def repeated(work: Callable[[], object]) -> Callable[[], None]:
    """The same call a hundred times."""

    def many() -> None:
        for _ in range(100):
            work()

    return many


def report(name: str, value: float, bar: float, unit: str, **more: float) -> bool:
    """One JSON line; False when the bar is missed."""
    line = {"name": name, "ratio": round(value, 3), "bar": bar, "unit": unit, "ok": value <= bar, **more}
    click.echo(json.dumps(line))
    return value <= bar


def issue(envelope: bytes) -> bool:
    """From a finished statement to its envelope."""
    statement, signer = payload_of(envelope), key("cert")
    payload = canonical.encode(statement)
    signed = dsse.pae(dsse.STATEMENT_TYPE, payload)

    def issued() -> bytes:
        raw = canonical.encode(statement)
        message = dsse.pae(dsse.STATEMENT_TYPE, raw)
        return dsse.encode(raw, dsse.STATEMENT_TYPE, [(signer.keyid, signer.sign(message))])

    if issued() != envelope:
        raise SystemExit("issuing again does not give the same bytes")
    floors, times = [], []
    for _ in range(ROUNDS):
        floors.append(cpu(repeated(lambda: signer.sign(signed))))
        times.append(cpu(repeated(issued)))
    us = round(min(times) * 1e4, 1)
    return report("issue", min(times) / min(floors), ISSUE_BAR, "x of one raw Ed25519 sign", us=us)


def cold(folder: Path, envelope: bytes, manifest: bytes, log: Any) -> bool:
    """A new process that verifies one logged bundle."""
    one, root = folder / "one.trybundle.json", folder / "trust-root.json"
    one.write_bytes(bundle.encode_try(envelope, manifest, log.prove(envelope)))
    root.write_bytes(trust_root(logged=True))
    verify = "import sys; from orchestrator.cli.main import main; main(sys.argv[1:])"
    # Compiled modules are kept, as on every host, and the first run that makes them is not counted.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    asked = ["--home", str(folder / "home"), "verify", str(one), "--trust-root", str(root), "--no-evidence"]

    def milliseconds(*command: str) -> tuple[float, float]:
        began, before = time.perf_counter(), children_seconds()
        done = subprocess.run(
            [sys.executable, "-c", *command], cwd=ROOT, env=kept, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"the bench's own bundle does not verify: {done.stderr[-500:]!r}")
        return (children_seconds() - before) * 1000, (time.perf_counter() - began) * 1000

    bare, whole = [], []
    milliseconds(verify, *asked)
    for _ in range(COLD_RUNS):
        bare.append(milliseconds("pass")[0])
        whole.append(milliseconds(verify, *asked))
    least = min(one for one, _ in whole)
    more = {"bare_python_ms": round(min(bare), 1), "wall_ms": round(min(wall for _, wall in whole), 1)}
    return report("verify-cold", least, COLD_BAR_MS, "ms of CPU", **more)


def evidence(folder: Path) -> bool:
    """Hashing one large file of the store again."""
    store, block = EvidenceStore(folder / "evidence"), hashlib.sha256(b"block").digest() * (1 << 15)
    blob = store.put_bytes(block * EVIDENCE_MIB)
    path = next(one for one in (folder / "evidence").rglob(blob.sha256[2:]) if one.is_file())

    def floor() -> None:
        with path.open("rb", buffering=0) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob.sha256:
                raise SystemExit("the evidence changed")

    floors, times = [], []
    for _ in range(8):
        floors.append(cpu(floor))
        times.append(cpu(lambda: store.verify(blob.sha256)))
    return report("evidence-hash", min(times) / min(floors), EVIDENCE_BAR, "x of SHA-256 streaming")


def audit(folder: Path, root: trust.TrustRoot, opening: bytes, envelope: bytes) -> bool:
    """Logs of many certificates with all their statements."""
    public, signer = ed25519.public_key(key("cert").public), key("cert")
    message = dsse.pae(dsse.STATEMENT_TYPE, dsse.decode(envelope, dsse.STATEMENT_TYPE, 1 << 20).payload)
    signature = signer.sign(message)
    statement, seconds = payload_of(envelope), []
    for size in SIZES:
        many = []
        for number in range(size - 1):
            other = copy.deepcopy(statement)
            other["predicate"]["task"]["id"] = f"task-{number}"
            many.append(resign(other))
        own = Log(root).enter(opening, *many).write(folder / f"log-{size}")
        rounds = [cpu(lambda own=own: audit_log(own, root)) for _ in range(3)]  # type: ignore[misc]
        found = audit_log(own, root)
        if found.exit_code != 0 or found.read != size:
            raise SystemExit("the bench's own log does not hold")
        seconds.append(min(rounds))
    floors = [cpu(repeated(lambda: public.verify(signature, message))) for _ in range(ROUNDS)]
    slope = (seconds[1] - seconds[0]) / (SIZES[1] - SIZES[0])
    whole = seconds[1] + slope * (FULL - SIZES[1])
    ratio = whole / (FULL * min(floors) / 100)
    return report(
        "audit-100000-extrapolated",
        ratio,
        AUDIT_BAR,
        "x of as many raw Ed25519 verifies",
        seconds=round(whole, 1),
        at_1000=round(seconds[0] / SIZES[0] / (min(floors) / 100), 3),
        at_5000=round(seconds[1] / SIZES[1] / (min(floors) / 100), 3),
    )


def main() -> None:
    """One certificate among 5,000 entries of others, and everything about it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = trust.parse(trust_root(logged=True))
        shot = World(folder / "store").screening("bench")
        signed = shot.run("alpha", 1, PASS)
        opening, envelope = shot.opening.envelope, signed.envelope
        good = issue(envelope)
        log = Log(root).fill(5_000).enter(opening, envelope)
        good = cold(folder, envelope, signed.manifest or b"", log) and good
        good = evidence(folder) and good
        good = audit(folder, root, opening, envelope) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
