"""Whether a relay transcript is that of the attempt and the conditions which a certificate names; pure.

A transcript names its lane in every record, and the lane's terms in the first one. So a cheaper or a
luckier transcript, a rehearsed one, or one made under other prices cannot be put in the place of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates.statements import TryPredicate
from orchestrator.evidence.transcript import Chain, Kind, TranscriptError
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome

RELAY_POLICY: Final = "relay-only"


def relay_policy(
    policy_id: str, *, provider_tools: list[str], prices: str | None, rehearsal: str | None
) -> dict[str, object]:
    """The network policy of an agent that calls models, as published data: nothing but the relay.

    `prices` and `rehearsal` are SHA-256 in hex of the price sheet and of the script of a rehearsal.
    """
    relay = {
        "provider-tools": provider_tools,
        "remote-urls": False,
        "stored-input": False,
        "prices": prices,
        "rehearsal": rehearsal,
    }
    return {"id": policy_id, "egress": [], "name-service": None, "relay": relay}


def why_not_bound(chain: Chain, predicate: TryPredicate, seen: Observations) -> str | None:
    """What of a transcript contradicts its certificate, in words; None when nothing does.

    The transcript of an attempt that was lost, or is void as the platform's fault, may break off. Raises
    `TranscriptError` when its first record opens no lane.
    """
    lane = f"{predicate.slot.attempt_id}.agent"
    if any(record.get("lane") != lane for record in chain.records):
        return "the transcript belongs to another attempt"
    lost = seen.worker_lost or predicate.result.outcome == Outcome.PLATFORM_FAULT
    closed = chain.records[-1].get("kind") == Kind.CLOSE
    if not lost and not closed:
        return "the transcript breaks off before its lane was closed"
    if seen.provider_outage and not (closed and _last_failed(chain)):
        return "an outage was observed which the transcript does not show"
    return None if predicate.agent.connection != "relay" else _other_terms(chain, predicate)


def _last_failed(chain: Chain) -> bool:
    """Whether the last model call that ended failed by the provider, as the lane itself summed it up."""
    tally = chain.records[-1]["data"].get("tally")
    return isinstance(tally, Mapping) and tally.get("lastGeneration") == "provider"


def _other_terms(chain: Chain, predicate: TryPredicate) -> str | None:
    conditions, opened = predicate.conditions, chain.records[0]["data"]
    try:
        capped = (opened["cap_nusd"], opened["step_limit"])
        pins = {(pin["model"], pin["provider"]) for pin in opened["pins"]}
        policy, rehearsal = _policy(opened), opened["rehearsal"]
    except (KeyError, TypeError):
        raise TranscriptError(1, "does not open a lane") from None
    if capped != (conditions.cost_cap_nusd, conditions.step_limit):
        return "the transcript was made under another cap or step limit"
    sold = {(model.id, model.provider) for model in predicate.agent.models}
    if any((model, provider) not in sold and (model, None) not in sold for model, provider in pins):
        return "the transcript allows other models than the agent's, or other providers of them"
    if canonical.digest(policy) != conditions.network_policy.digest.sha256:
        return "the transcript was made under another network policy or other prices"
    if (rehearsal is not None) != (predicate.sandbox.level == "simulated"):
        return "a rehearsal is simulated, and nothing else is"
    return None


def _policy(opened: Mapping[str, Any]) -> dict[str, object]:
    if opened["policy"]["remote_urls"]:
        return {}  # never part of a published policy
    return relay_policy(
        RELAY_POLICY,
        provider_tools=list(opened["policy"]["provider_tools"]),
        prices=opened["prices"]["digest"],
        rehearsal=opened["rehearsal"],
    )
