"""At which hours of the day the counted tries of a screening really began: load differs by hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt
from orchestrator.ledger.states import AttemptState

_HOUR_MS: Final = 3_600_000


def start_hours(ledger: Ledger, screening_id: str) -> dict[int, int]:
    """How many counted attempts began in each hour of the day (0 to 23, UTC), by the database's clock."""
    query = sa.select(Attempt.claimed_ms).where(
        Attempt.screening_id == screening_id, Attempt.state == AttemptState.RECORDED
    )
    with ledger.reading() as connection:
        counted = Counter(claimed_ms // _HOUR_MS % 24 for claimed_ms in connection.scalars(query))
    return dict(sorted(counted.items()))


def hours_text(hours: Mapping[int, int]) -> str:
    """For a person: how many hours, and each of them with its tries; pure."""
    if not hours:
        return "none yet"
    shown = ", ".join(f"{hour:02d}h {count}" for hour, count in sorted(hours.items()))
    return f"in {len(hours)} of 24 hours (UTC): {shown}"
