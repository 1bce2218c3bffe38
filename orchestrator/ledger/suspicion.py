"""Whether an agent has brought the same doubt upon another worker before (reference/sandbox.md section 5)."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, HostOwner, Screening, TrySlot
from orchestrator.ledger.transitions import Claim
from scoring.vocabulary import Outcome


def suspect_elsewhere(ledger: Ledger, held: Claim) -> bool:
    """True if a suspect platform fault of this agent revision at this task came on another host before.

    Any try of any screening counts. A worker is a host: two processes of one host share its troubles.
    """
    mine, theirs = aliased(Screening), aliased(Screening)
    here = sa.select(HostOwner.host).where(HostOwner.id == held.owner_id).scalar_subquery()
    query = (
        sa.select(Attempt.id)
        .select_from(mine)
        .join(
            theirs,
            sa.and_(theirs.agent_digest == mine.agent_digest, theirs.pack_digest == mine.pack_digest),
        )
        .join(TrySlot, sa.and_(TrySlot.screening_id == theirs.id, TrySlot.task_id == held.task_id))
        .join(Attempt, Attempt.slot_id == TrySlot.id)
        .join(HostOwner, HostOwner.id == Attempt.owner_id)
        .where(
            mine.id == held.screening_id,
            Attempt.outcome == Outcome.PLATFORM_FAULT,
            Attempt.suspect.is_(True),
            HostOwner.host != here,
        )
        .limit(1)
    )
    with ledger.reading() as connection:
        return connection.scalar(query) is not None
