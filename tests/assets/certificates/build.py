"""Makes every named bad (and good) certificate file with the verdict that it must get.

`python build.py FOLDER` writes the files and `index.json`: name, file, kind (`try`, `screening`,
`trust-root`, `audit`), the row of the attack table (reference/certificates.md section 4), the expected
exit code and reason codes, and which trust root, evidence store, policy, memory and published logs to verify
with. Keys are seeded and clocks fixed, so two runs write the same bytes.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from certificate_builder import Builder, Case
from certificate_carrier_cases import add_carriers
from certificate_chain_cases import add_bundle_chains
from certificate_log_cases import add_logged
from certificate_notice_cases import add_notices
from certificate_root_cases import add_chains, add_log_entries, add_trust_roots
from certificate_screening_cases import add_screenings
from certificate_shard_cases import add_shards
from certificate_single_cases import add_content, add_evidence, add_genuine, add_signature, add_spelling


def spoil_stores(b: Builder) -> None:
    """Copies of the evidence store with the genuine command log altered or missing."""
    entry = next(f for f in json.loads(b.manifest)["files"] if f["role"] == "command-log")
    for name in ("altered", "missing"):
        target = b.folder / f"store-{name}"
        shutil.copytree(b.folder / "store", target)
        path = target / "sha256" / entry["sha256"][:2] / entry["sha256"][2:]
        if name == "altered":
            path.write_bytes(path.read_bytes()[:-1] + b"!")
        else:
            path.unlink()
    (b.folder / "store").rename(b.folder / "store-good")


def build(folder: Path) -> list[Case]:
    """Write every file and the index; returns the cases."""
    b = Builder(folder)
    for part in (
        add_genuine,
        add_signature,
        add_spelling,
        add_content,
        add_evidence,
        add_screenings,
        add_carriers,
        add_trust_roots,
        add_chains,
        add_bundle_chains,
        add_log_entries,
        add_logged,
        add_notices,
        add_shards,
    ):
        part(b)
    spoil_stores(b)
    b.write_index()
    return b.cases


if __name__ == "__main__":
    sys.stdout.write(f"{len(build(Path(sys.argv[1])))} files\n")
