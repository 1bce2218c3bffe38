"""`assize pause`: nothing new is started, running tries end."""

from __future__ import annotations

from orchestrator.cli.steering import steering
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.transitions import pause

TEXT = """Start no further try of SCREENING, on whatever host; running tries end and are recorded.

\b
Examples:
  assize pause 01JAB4
  assize pause 01JAB4 --json
"""


def _pause(ledger: Ledger, screening_id: str) -> str:
    return "paused" if pause(ledger, screening_id, who="operator") else "was paused already"


command = steering("pause", "Start no further try of a screening.", TEXT, _pause)
