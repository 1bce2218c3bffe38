"""The file of role `observations`: the observation vector and the decision that followed from it.

The signer decides again from these bytes, so an outcome cannot be certified that its own evidence does
not give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from orchestrator import canonical
from orchestrator.evidence import metering
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import ManifestBuilder, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import TranscriptError, read
from orchestrator.faults import Decision, decide
from orchestrator.observations import Clock, Death, Observations, VerdictProblem

FILE_NAME: Final = "observations.json"
_ENUMS: Final[dict[str, Callable[[str], object]]] = {
    "agent_clock": Clock,
    "grader_clock": Clock,
    "agent_death": Death,
    "grader_death": Death,
    "sidecar_death": Death,
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
    store: EvidenceStore,
    *,
    attempt_id: str,
    try_id: str,
    seen: Observations,
    transcript: bytes | None = None,
) -> tuple[str, Decision]:
    """A manifest of the observations, for an attempt whose worker gave no report.

    `transcript` is what its relay had written by then: it becomes evidence with its ledger, so that what
    the attempt used is certified. Returns the manifest digest and the decision, so that a lost worker is
    certified like any other end.
    """
    decision = decide(seen)
    builder = ManifestBuilder(store, attempt_id=attempt_id, try_id=try_id)
    builder.add_bytes(FILE_NAME, Role.OBSERVATIONS, encode(seen, decision))
    if transcript is not None:
        _add_transcript(builder, transcript)
    return builder.seal(sync=True), decision


def _add_transcript(builder: ManifestBuilder, raw: bytes) -> None:
    """A torn last line was never acted upon and is left out. What is no chain proves nothing: left out."""
    whole = raw[: raw.rfind(b"\n") + 1]
    try:
        chain = read(whole)
        metering.prices_of(chain)
        ledger = metering.encode(metering.ledger_lines(chain))
    except TranscriptError:
        return
    builder.add_bytes(metering.TRANSCRIPT_FILE, Role.TRANSCRIPT, whole)
    builder.add_bytes(metering.FILE_NAME, Role.METERING_LEDGER, ledger)
