"""What every engine is given to run the tries of a home: the runner, evidence of the lost, the floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from orchestrator.attempts import AttemptFunction, AttemptOrder
from orchestrator.engine.base import Callbacks, Salvage
from orchestrator.evidence import observed
from orchestrator.evidence.errors import EvidenceError
from orchestrator.ledger.suspicion import suspect_elsewhere
from orchestrator.ledger.transitions import Claim
from orchestrator.observations import Observations
from orchestrator.screenings.floor import require_floor
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.orders import returning_subnets
from orchestrator.screenings.relaying import left_transcript, metered_nusd

ENGINE_FOLDER: Final = Path("/var/lib/docker")
"""Where an engine keeps its files unless its operator chose another place; `assize doctor` shows which."""


def callbacks_for(
    installation: Installation, attempt: AttemptFunction, order_for: Callable[[Claim], AttemptOrder]
) -> Callbacks:
    """Callbacks over a home; nothing is certified or shown by them."""
    home = installation.home
    return Callbacks(
        attempt=returning_subnets(installation.ledger, attempt),
        order_for=order_for,
        salvage=lambda held, seen: salvage(installation, held, seen),
        metered=lambda held: metered_nusd(home, held.attempt_id),
        admit=lambda: _admit(installation),
    )


def _admit(installation: Installation) -> None:
    """No agent is to spend money on a host whose disk is full or whose archive takes nothing."""
    require_floor((installation.home.evidence, ENGINE_FOLDER))
    installation.store.probe()


def salvage(installation: Installation, held: Claim, seen: Observations) -> Salvage:
    """Evidence of an attempt that gave no report: what was observed, and what its relay had written."""
    seen = replace(seen, suspect_elsewhere=suspect_elsewhere(installation.ledger, held))
    try:
        digest, _ = observed.seal_alone(
            installation.store,
            attempt_id=held.attempt_id,
            try_id=held.slot_id,
            seen=seen,
            transcript=left_transcript(installation.home, held.attempt_id),
        )
    except EvidenceError:
        return Salvage(seen)
    return Salvage(seen, digest)
