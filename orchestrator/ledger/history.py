"""The history: one event per transition, written in the transition's own unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from orchestrator.ledger.models import Event

INSERT_EVENT: Final = sa.insert(Event)


def event_row(
    at_ms: int,
    screening_id: str,
    kind: str,
    who: str,
    *,
    slot_id: str | None = None,
    attempt_id: str | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    reason: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One row of the history, for `insert(Event)`."""
    return {
        "at_ms": at_ms,
        "screening_id": screening_id,
        "slot_id": slot_id,
        "attempt_id": attempt_id,
        "kind": kind,
        "from_state": from_state,
        "to_state": to_state,
        "who": who,
        "reason": reason,
        "data": None if data is None else dict(data),
    }
