"""Programs of this host, run to their end: nothing to read, a time that they have, and what they said."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_program(
    command: Sequence[str],
    *,
    within_s: int,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Its exit code and what it wrote; raises `subprocess.TimeoutExpired` after `within_s`, killed."""
    return subprocess.run(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=within_s,
        check=False,
    )


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what it complained about, in one line."""
    return " | ".join(done.stderr.strip().splitlines()[-3:])
