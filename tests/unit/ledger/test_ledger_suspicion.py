"""The ledger knows whether an agent brought a doubtful end upon another worker before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import HostOwner
from orchestrator.ledger.owners import register
from orchestrator.ledger.suspicion import suspect_elsewhere
from orchestrator.ledger.transitions import AttemptEnd, Claim, claim, end_attempt, queue, start
from scoring.vocabulary import Reason

MakeEnd = Callable[..., AttemptEnd]


def worker(ledger: Ledger, host: str) -> str:
    """A worker process on a host of that name."""
    owner_id = register(ledger).id
    with ledger.unit_of_work() as connection:
        connection.execute(sa.update(HostOwner).where(HostOwner.id == owner_id).values(host=host))
    return owner_id


def screening_of(ledger: Ledger, agent: str, tries: int = 3) -> str:
    screening = plan_stub(ledger, ["task"], tries=tries, name=agent)
    start(ledger, screening, who="test")
    queue(ledger, screening, 10)
    return screening


def taken(ledger: Ledger, screening: str, owner_id: str) -> Claim:
    held = claim(ledger, screening, owner_id, lease_ms=120_000)
    assert held is not None
    return held


@pytest.mark.parametrize(
    ("reason", "suspect", "second_host", "seen"),
    [
        (Reason.ENGINE_ERROR, True, "b", True),
        (Reason.ENGINE_ERROR, True, "a", False),  # another process of the same host shares its troubles
        (Reason.ENGINE_ERROR, False, "b", False),
        (Reason.CRASH, True, "b", False),  # convicted before: an end of its own, not a doubt
    ],
)
def test_only_a_suspect_platform_fault_on_another_host_counts(
    ledger: Ledger, end: MakeEnd, reason: Reason, suspect: bool, second_host: str, seen: bool
) -> None:
    """sandbox.md section 5: twice, the same agent and task, in different workers; any try of it."""
    screening = screening_of(ledger, "agent")
    first = taken(ledger, screening, worker(ledger, "a"))
    assert not suspect_elsewhere(ledger, first)
    end_attempt(ledger, first, replace(end(reason), suspect=suspect), back_off_ms=0)
    second = taken(ledger, screening, worker(ledger, second_host))
    assert suspect_elsewhere(ledger, second) is seen


def test_another_agent_is_not_suspected(ledger: Ledger, end: MakeEnd) -> None:
    """The doubt is about one agent revision; the next one at the same task starts without it."""
    first = taken(ledger, screening_of(ledger, "one"), worker(ledger, "a"))
    end_attempt(ledger, first, replace(end(Reason.ENGINE_ERROR), suspect=True), back_off_ms=0)
    assert not suspect_elsewhere(ledger, taken(ledger, screening_of(ledger, "two"), worker(ledger, "b")))
