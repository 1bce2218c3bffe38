"""Whether an agent has brought the same doubt upon another worker before (reference/sandbox.md section 5)."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, HostOwner, Screening, TrySlot
from orchestrator.ledger.transitions import Claim
from scoring.vocabulary import Outcome


def _same_doubt() -> sa.Select[str]:
    mine, theirs = aliased(Screening), aliased(Screening)
    here = sa.select(HostOwner.host).where(HostOwner.id == sa.bindparam("owner")).scalar_subquery()
    return (
        sa.select(Attempt.id)
        .select_from(mine)
        .join(
            theirs,
            sa.and_(theirs.agent_digest == mine.agent_digest, theirs.pack_digest == mine.pack_digest),
        )
        .join(TrySlot, sa.and_(TrySlot.screening_id == theirs.id, TrySlot.task_id == sa.bindparam("task")))
        .join(Attempt, Attempt.slot_id == TrySlot.id)
        .join(HostOwner, HostOwner.id == Attempt.owner_id)
        .where(
            mine.id == sa.bindparam("screening"),
            Attempt.outcome == Outcome.PLATFORM_FAULT,
            Attempt.suspect.is_(True),
            HostOwner.host != here,
        )
        .limit(1)
    )


# Asked before every try, and dearer to put together (8 ms of a try's 100) than to run.
_SAME_DOUBT: Final = _same_doubt()


def suspect_elsewhere(ledger: Ledger, held: Claim) -> bool:
    """True if a suspect platform fault of this agent revision at this task came on another host before.

    Any try of any screening counts. A worker is a host: two processes of one host share its troubles.
    """
    known = {"owner": held.owner_id, "task": held.task_id, "screening": held.screening_id}
    with ledger.reading() as connection:
        return connection.scalar(_SAME_DOUBT, known) is not None
