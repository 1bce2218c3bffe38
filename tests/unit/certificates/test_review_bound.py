"""A transcript counts for one attempt only, whole, and under the conditions that its certificate states."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import canonical
from orchestrator.certificates.bound import relay_policy, why_not_bound
from orchestrator.certificates.errors import SigningRefusedError
from orchestrator.certificates.statements import Model, NetworkPolicy, Sha256
from orchestrator.evidence.transcript import TranscriptError, read
from orchestrator.observations import Observations

DIGEST = "ab" * 32
SEEN = Observations(agent_started=True, reward="1", reward_passes=True)
TERMS: dict[str, Any] = {
    "kind": "agent",
    "pins": [{"model": "model-a", "provider": "house"}],
    "cap_nusd": 1_000,
    "step_limit": 10,
    "policy": {"provider_tools": ["web_search"], "remote_urls": False, "denied_betas": []},
    "rehearsal": None,
    "prices": {"id": "list", "date": "2026-09-01", "digest": DIGEST},
}


def relayed(predicate: Any, *, rehearsal: str | None = None, **changes: Any) -> Any:
    """The predicate of an agent that calls `model-a` under `TERMS`."""
    policy = relay_policy("relay-only", provider_tools=["web_search"], prices=DIGEST, rehearsal=rehearsal)
    conditions = predicate.conditions.model_copy(
        update={
            "cost_cap_nusd": 1_000,
            "step_limit": 10,
            "network_policy": NetworkPolicy(id="relay-only", digest=Sha256(sha256=canonical.digest(policy))),
        }
    )
    model = Model(role="main", id="model-a", snapshot=None, provider="house")
    agent = predicate.agent.model_copy(update={"connection": "relay", "models": (model,)})
    return predicate.model_copy(update={"conditions": conditions, "agent": agent, **changes})


@pytest.fixture
def predicate(world: Any, lab: Any) -> Any:
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    return shot.certificates[0][1]


def chain_of(tape: Any, attempt_id: str, **changes: Any) -> Any:
    lane = f"{attempt_id}.agent"
    opened = {"lane": lane, "kind": "open", "data": {**TERMS, **changes}}
    return read(tape.chained([opened, {"lane": lane, "kind": "close"}]))


def test_the_transcript_of_another_attempt_is_not_signed(world: Any, lab: Any, tape: Any) -> None:
    """A cheaper try cannot lend its transcript, not even one record of it, to a dearer one."""
    shot = world.screening()
    cheap = tape.transcript(tape.settled(1, 0, 1, 10), attempt_id=shot.attempt_id("alpha", 2))
    with pytest.raises(SigningRefusedError, match="another attempt"):
        shot.run("alpha", 1, lab.PASS, usage=tape.usage_of(cheap), extra=tape.files_of(cheap))


def test_a_transcript_without_its_end_is_not_signed(world: Any, lab: Any, tape: Any) -> None:
    """Its beginning is a good chain too: who leaves out the last calls would state a lower cost."""
    shot = world.screening()
    calls = [tape.settled(60, 0, 10, 3_000)] * 2
    raw = tape.transcript(*calls, attempt_id=shot.attempt_id("alpha", 1))
    short = b"".join(raw.splitlines(keepends=True)[:3])
    assert tape.usage_of(short).cost_nusd == 3_000
    with pytest.raises(SigningRefusedError, match="breaks off"):
        shot.run("alpha", 1, lab.PASS, usage=tape.usage_of(short), extra=tape.files_of(short))


def test_a_lost_attempts_transcript_may_break_off(world: Any, lab: Any, tape: Any) -> None:
    """Nobody closed its lane; what it used until then is certified, and it never counts."""
    shot = world.screening()
    raw = tape.transcript(tape.settled(60, 0, 10, 3_000), attempt_id=shot.attempt_id("alpha", 1))
    short = b"".join(raw.splitlines(keepends=True)[:3])
    shot.run("alpha", 1, lab.LOST, usage=tape.usage_of(short), extra=tape.files_of(short))


@pytest.mark.parametrize(("last", "signed"), [("provider", True), ("ok", False), (None, False)])
def test_an_outage_is_one_that_the_transcript_shows(
    world: Any, lab: Any, tape: Any, last: str | None, signed: bool
) -> None:
    """A re-run for an outage that nobody saw would be a second chance for nothing."""
    shot = world.screening()
    lane = f"{shot.attempt_id('alpha', 1)}.agent"
    opened = {"lane": lane, "kind": "open", "data": {"prices": tape.PRICES}}
    closed = {"lane": lane, "kind": "close", "data": {"tally": {"lastGeneration": last}}}
    raw = tape.chained([opened, closed])
    seen = Observations(agent_started=True, provider_outage=True)
    given = {"usage": tape.usage_of(raw), "extra": tape.files_of(raw)}
    if signed:
        shot.run("alpha", 1, seen, **given)
    else:
        with pytest.raises(SigningRefusedError, match="outage"):
            shot.run("alpha", 1, seen, **given)


def test_terms_that_are_those_of_the_certificate_are_bound(predicate: Any, tape: Any) -> None:
    """Caps, models, tools, prices: all of them are promised in the opening."""
    chain = chain_of(tape, predicate.slot.attempt_id)
    assert why_not_bound(chain, relayed(predicate), SEEN) is None


def test_an_opening_that_names_no_provider_binds_the_model_alone(predicate: Any, tape: Any) -> None:
    """Openings from before providers were stated are still closed as they were opened."""
    model = Model(role="main", id="model-a", snapshot=None)
    early = relayed(predicate)
    early = early.model_copy(update={"agent": early.agent.model_copy(update={"models": (model,)})})
    assert why_not_bound(chain_of(tape, predicate.slot.attempt_id), early, SEEN) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cap_nusd": 2_000}, "cap"),
        ({"cap_nusd": None}, "cap"),
        ({"step_limit": None}, "step limit"),
        ({"pins": [{"model": "model-b", "provider": "house"}]}, "other models"),
        ({"pins": [{"model": "model-a", "provider": "cheap"}]}, "other providers"),
        ({"prices": {**TERMS["prices"], "digest": "cd" * 32}}, "other prices"),
        ({"policy": {**TERMS["policy"], "provider_tools": []}}, "network policy"),
        ({"policy": {**TERMS["policy"], "remote_urls": True}}, "network policy"),
        ({"rehearsal": DIGEST}, "network policy"),
    ],
)
def test_other_terms_are_not_bound(predicate: Any, tape: Any, changes: dict[str, Any], said: str) -> None:
    """A try that was allowed more, or priced otherwise, is another try."""
    chain = chain_of(tape, predicate.slot.attempt_id, **changes)
    assert said in (why_not_bound(chain, relayed(predicate), SEEN) or "")


def test_a_rehearsal_is_never_certified_as_real(predicate: Any, tape: Any) -> None:
    """Nor a real try as a rehearsal, by which a lab would take a failure out of the count."""
    chain = chain_of(tape, predicate.slot.attempt_id, rehearsal=DIGEST)
    real = relayed(predicate, rehearsal=DIGEST)
    assert "rehearsal" in (why_not_bound(chain, real, SEEN) or "")
    sandbox = predicate.sandbox.model_copy(update={"level": "simulated"})
    simulated = relayed(predicate, rehearsal=DIGEST, sandbox=sandbox)
    assert why_not_bound(chain, simulated, SEEN) is None
    shown = relayed(predicate, sandbox=sandbox)
    chain = chain_of(tape, predicate.slot.attempt_id)
    assert "rehearsal" in (why_not_bound(chain, shown, SEEN) or "")


@pytest.mark.parametrize("missing", ["pins", "cap_nusd", "step_limit", "policy", "prices", "rehearsal"])
def test_a_lane_without_its_terms_is_no_lane(predicate: Any, tape: Any, missing: str) -> None:
    """What is not said cannot be compared."""
    lane = f"{predicate.slot.attempt_id}.agent"
    data = {name: value for name, value in TERMS.items() if name != missing}
    records = [{"lane": lane, "kind": "open", "data": data}, {"lane": lane, "kind": "close"}]
    with pytest.raises(TranscriptError):
        why_not_bound(read(tape.chained(records)), relayed(predicate), SEEN)


def test_a_pass_of_a_metered_agent_needs_its_metering(predicate: Any) -> None:
    """Dropping the transcript must not turn a dear pass into one whose cost is merely unknown."""
    from orchestrator.certificates.rules import contradictions
    from orchestrator.certificates.schema import TRY
    from orchestrator.certificates.statements import Statement, Usage

    bare = relayed(predicate, usage=Usage.unmetered())
    found = contradictions(Statement("0" * 64, bare).as_data(), TRY)
    assert [one.code for one in found] == ["usage"]
