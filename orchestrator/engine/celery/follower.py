"""Progress of a campaign that others run, read from the history: the same events as of an engine here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from orchestrator.engine.base import Closed, Ended, Progress, Refused, Started, Voided
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, Event, Screening, TrySlot
from orchestrator.ledger.states import OPERATOR_CANCELLED, AttemptState, SlotState
from orchestrator.ledger.transitions import Claim
from scoring.vocabulary import Outcome

_OVERLAP: Final = 1000
"""Ids looked at again: of two transactions at once the later id may be visible first."""
_KINDS: Final = ("claimed", "ended", "refused", "closed")


class Follower:
    """Every event of some screenings once, from now on."""

    def __init__(self, ledger: Ledger, screening_ids: Sequence[str]) -> None:
        self._ledger = ledger
        self._ids = list(screening_ids)
        self._seen: deque[int] = deque(maxlen=4 * _OVERLAP)
        self._last = 0
        for row in self._rows():
            self._note(row.id)

    def news(self) -> Iterator[Progress]:
        """What has happened since the last call."""
        for row in self._rows():
            if row.id in self._seen:
                continue
            self._note(row.id)
            if row.kind == "closed":
                yield Closed(row.screening_id, row.to_state)
            else:
                yield _event(row)

    def _note(self, event_id: int) -> None:
        self._seen.append(event_id)
        self._last = max(self._last, event_id)

    def _rows(self) -> Sequence[Any]:
        attempt = [column.label(f"attempt_{column.name}") for column in Attempt.__table__.columns]
        query = (
            sa.select(
                Event.id,
                Event.kind,
                Event.screening_id,
                Event.to_state,
                *attempt,
                TrySlot.task_id,
                TrySlot.k,
                TrySlot.reruns,
                Screening.rerun_limit,
            )
            .join(Screening, Screening.id == Event.screening_id)
            .outerjoin(Attempt, Attempt.id == Event.attempt_id)
            .outerjoin(TrySlot, TrySlot.id == Event.slot_id)
            .where(
                Event.screening_id.in_(self._ids),
                Event.kind.in_(_KINDS),
                Event.id > self._last - _OVERLAP,
            )
            .order_by(Event.id)
        )
        with self._ledger.reading() as connection:
            return connection.execute(query).all()


def _event(row: Any) -> Progress:
    held = Claim(
        screening_id=row.screening_id,
        slot_id=row.attempt_slot_id,
        attempt_id=row.attempt_id,
        task_id=row.task_id,
        k=row.k,
        token=row.attempt_token,
        number=row.attempt_number,
        reruns=row.reruns,
        rerun_limit=row.rerun_limit,
        claimed_ms=row.attempt_claimed_ms,
        deadline_ms=row.attempt_deadline_ms,
        owner_id=row.attempt_owner_id,
    )
    if row.kind == "claimed":
        return Started(held)
    if row.kind == "refused":
        return Refused(held)
    if row.attempt_state == AttemptState.RECORDED:
        return Ended(held, Outcome(row.attempt_outcome), row.attempt_reason, row.attempt_wall_ms)
    outcome = None if row.attempt_reason == OPERATOR_CANCELLED else Outcome(row.attempt_outcome)
    again = row.to_state == SlotState.QUEUED
    return Voided(held, outcome, row.attempt_reason, again, lost=row.attempt_reason == "worker_lost")
