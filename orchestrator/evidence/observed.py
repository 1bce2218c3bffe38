"""The file of role `observations`: the observation vector and the decision that followed from it.

The signer decides again from these bytes, so an outcome cannot be certified that its own evidence does
not give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from orchestrator import canonical
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import ManifestBuilder, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import Decision, decide
from orchestrator.observations import Clock, Death, Observations, VerdictProblem

FILE_NAME: Final = "observations.json"
_ENUMS: Final[dict[str, Callable[[str], object]]] = {
    "agent_clock": Clock,
    "grader_clock": Clock,
    "agent_death": Death,
    "grader_death": Death,
    "verdict_problem": VerdictProblem,
}


def encode(seen: Observations, decision: Decision) -> bytes:
    """Canonical bytes of the vector with its decision."""
    decided = {
        "outcome": decision.outcome.value,
        "reason": decision.reason.value,
        "phase": decision.phase.value,
        "rule": decision.rule,
        "evidence": list(decision.evidence),
        "suspect": decision.suspect,
    }
    return canonical.encode({"decision": decided, "observations": seen.as_data()})


def decode(raw: bytes) -> Observations:
    """The vector; raises `EvidenceError` for anything that is not one. The decision is not read."""
    try:
        data = canonical.decode_strict(raw)["observations"]
        known = {field.name for field in fields(Observations)}
        if not isinstance(data, dict) or not data.keys() <= known:
            raise ValueError("unknown fields")
        for name, kind in _ENUMS.items():
            if data.get(name) is not None:
                data[name] = kind(data[name])
        return Observations(**data)
    except (canonical.CanonicalFormError, KeyError, ValueError, TypeError):
        raise EvidenceError("the observations in the evidence are not an observation vector") from None


def seal_alone(
    store: EvidenceStore, *, attempt_id: str, try_id: str, seen: Observations
) -> tuple[str, Decision]:
    """A manifest that holds the observations only, for an attempt whose worker left nothing behind.

    Returns the manifest digest and the decision, so that a lost worker is certified like any other end.
    """
    decision = decide(seen)
    builder = ManifestBuilder(store, attempt_id=attempt_id, try_id=try_id)
    builder.add_bytes(FILE_NAME, Role.OBSERVATIONS, encode(seen, decision))
    return builder.seal(sync=True), decision
