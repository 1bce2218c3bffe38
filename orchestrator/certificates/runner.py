"""Which code of ours ran an attempt: version and one digest over the sources of the four houses."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

from orchestrator import canonical

HOUSES = ("orchestrator", "sandbox_images", "scoring", "workers")


@cache
def identity() -> tuple[str, str]:
    """(installed version, SHA-256 over the canonical list of [path, SHA-256] of every Python file)."""
    base = Path(__file__).resolve().parents[2]
    files = sorted(
        path.relative_to(base).as_posix() for house in HOUSES for path in (base / house).rglob("*.py")
    )
    listing = [[name, hashlib.sha256((base / name).read_bytes()).hexdigest()] for name in files]
    return metadata.version("assize"), canonical.digest(listing)
