"""`assize resume`: a paused screening goes on where it was."""

from __future__ import annotations

from orchestrator.cli.steering import steering
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.transitions import resume

TEXT = """Let the paused SCREENING go on. Workers of many hosts take it up by themselves; on one machine the
same `assize screen` does.

\b
Examples:
  assize resume 01JAB4
  assize resume 01JAB4 --json
"""


def _resume(ledger: Ledger, screening_id: str) -> str:
    return "goes on" if resume(ledger, screening_id, who="operator") else "was not paused"


command = steering("resume", "Let a paused screening go on.", TEXT, _resume)
