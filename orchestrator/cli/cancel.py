"""`assize cancel`: a screening is given up for good."""

from __future__ import annotations

from orchestrator.cli.steering import steering
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import cancel, close

TEXT = """Give SCREENING up: waiting tries are cancelled at once, running ones stop at their next heartbeat.

What was recorded stays recorded. A cancelled screening never goes on; `assize pause` is for a break.

\b
Examples:
  assize cancel 01JAB4
  assize cancel 01JAB4 --json
"""


def _cancel(ledger: Ledger, screening_id: str) -> str:
    count = cancel(ledger, screening_id, who="operator")
    running = queries.status(ledger, screening_id).slots[SlotState.RUNNING]
    close(ledger, screening_id, who="operator")
    told = f", {running} running ones are told to stop" if running else ""
    return f"{count} tries cancelled{told}"


command = steering("cancel", "Give a screening up, whoever runs it.", TEXT, _cancel)
