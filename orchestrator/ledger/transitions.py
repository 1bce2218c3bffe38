"""Every transition of the state machine in one place (reference/distribution.md 4.2 and 4.3).

Slots: `queue` (1), `claim` and `claim_message` (3), `beat` (4), `end_attempt` (5, 6, 7 and, with the host's
evidence, 8), `cancel` (9), `stop_attempt` (10). Screenings: `plan`, `start`, `pause` (11), `resume`,
`cancel`, `stop_at_cap`, `close`. The pure decisions behind them are in `orchestrator.ledger.states`.
"""

from __future__ import annotations

from orchestrator.ledger.claims import Beat, Claim, beat, claim, claim_message, claims_of
from orchestrator.ledger.dispatch import queue
from orchestrator.ledger.endings import BACK_OFF_MS, Answer, AttemptEnd, end_attempt, stop_attempt
from orchestrator.ledger.screenings import (
    NewScreening,
    PlannedSlot,
    cancel,
    close,
    hand_to,
    pause,
    plan,
    resume,
    start,
    stop_at_cap,
)

__all__ = [
    "BACK_OFF_MS",
    "Answer",
    "AttemptEnd",
    "Beat",
    "Claim",
    "NewScreening",
    "PlannedSlot",
    "beat",
    "cancel",
    "claim",
    "claim_message",
    "claims_of",
    "close",
    "end_attempt",
    "hand_to",
    "pause",
    "plan",
    "queue",
    "resume",
    "start",
    "stop_at_cap",
    "stop_attempt",
]
