"""Invariants 8 and 13 of reference/distribution.md 4.6: what the relays of ended attempts left in the home.

A relay's transcript lies below the home while its attempt runs, and after it until the attempt's end is
evidence. Whatever it records is written before the relay acts on it, so a transcript that grew after its
attempt had ended says that a key outlived its lease.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import Violation
from orchestrator.ledger.models import Attempt, Screening
from orchestrator.ledger.states import ScreeningState

RELAY_CHECKS: Final = (
    (8, "no relay key without a live lease"),
    (13, "no model call after a cancel"),
)
_ASKED_AT_ONCE: Final = 500


def relay_violations(home: Home, ledger: Ledger, *, beat_ms: int) -> list[Violation]:
    """One for each attempt whose relay wrote more than a heartbeat after its end; clocks may differ by less.

    An attempt that the operator stopped by cancelling its screening violates 13, any other 8.
    """
    written: dict[str, int] = {}
    for path in (home.root / "relay").glob("*/*/transcript.jsonl"):
        attempt_id = path.parent.parent.name
        at_ms = path.stat().st_mtime_ns // 1_000_000
        written[attempt_id] = max(at_ms, written.get(attempt_id, 0))
    names = dict(RELAY_CHECKS)
    found = []
    ids = sorted(written)
    for first in range(0, len(ids), _ASKED_AT_ONCE):
        query = (
            sa.select(Attempt.id, Attempt.ended_ms, Screening.stop_reason)
            .join(Screening, Screening.id == Attempt.screening_id)
            .where(Attempt.id.in_(ids[first : first + _ASKED_AT_ONCE]), Attempt.ended_ms.is_not(None))
        )
        with ledger.reading() as connection:
            rows = connection.execute(query).all()
        for row in rows:
            late_ms = written[row.id] - row.ended_ms
            if late_ms > beat_ms:
                number = 13 if row.stop_reason == ScreeningState.CANCELLED else 8
                message = f"the relay of attempt {row.id} wrote {late_ms // 1000} s after its end"
                found.append(Violation(number, names[number], message))
    return found
