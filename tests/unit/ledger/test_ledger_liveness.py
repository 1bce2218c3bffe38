"""Who lives, for whoever removes what the dead left: never somebody who came while it was listed."""

from __future__ import annotations

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import claim, queue, start
from orchestrator.screenings.attempts import liveness_of


def test_what_began_after_the_first_look_lives(ledger: Ledger) -> None:
    """Containers are listed after the ledger was asked; an owner and a claim may come in between."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    is_live = liveness_of(ledger)
    owner = register(ledger)
    held = claim(ledger, screening, owner.id, lease_ms=60_000)
    assert held is not None
    assert is_live(f"owner/{owner.id}") and is_live(f"{held.slot_id}/{held.token}")
    assert not is_live("owner/nobody") and not is_live(f"{held.slot_id}/{held.token + 1}")
