"""The models that issue and the tables that verify are the same rules."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.certificates import rules, runner, schema, statements
from orchestrator.evidence.transcript import TranscriptError
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason


def test_models_and_tables_name_the_same_fields(world: Any, lab: Any) -> None:
    """What the models write, the tables read without an unknown or missing field."""
    shot = world.screening().usual()
    for kind, raw in (
        (schema.OPENING, shot.opening.envelope),
        (schema.TRY, shot.certificates[0][0].envelope),
        (schema.SUMMARY, shot.summary().envelope),
        (schema.NOTICE, shot.noticed(0)),
        (schema.NOTICE, shot.noticed_whole()),
        (schema.NOTICE, lab.key_event(world)),
    ):
        data = lab.payload_of(raw)
        assert schema.shape(data, kind) == []
        assert rules.contradictions(data, kind) == []


def test_later_fields_are_written_only_where_known() -> None:
    """Statements from before a field keep their bytes, and a known value is in the statement."""
    model = statements.Model(role="main", id="m", snapshot=None)
    assert model.model_dump(mode="json", by_alias=True) == {"role": "main", "id": "m", "snapshot": None}
    sold = statements.Model(role="main", id="m", snapshot=None, provider="house")
    assert sold.model_dump(mode="json", by_alias=True)["provider"] == "house"
    for kind in (statements.Model, statements.Conditions, statements.Usage):
        assert {kind.model_fields[name].default for name in kind.model_fields if name in kind.LATER} == {None}


def test_usage_says_where_the_calls_went(tape: Any) -> None:
    """The provider's address is in the certificate, as the relay's transcript has it."""
    lane = {"lane": "x.agent"}
    told = {"prices": tape.PRICES, "providers": {"house": "https://models.example/v1"}}
    raw = tape.chained([{**lane, "kind": "open", "data": told}, {**lane, "kind": "close"}])
    usage = tape.usage_of(raw).model_dump(mode="json", by_alias=True)
    assert usage["providers"] == [{"name": "house", "address": "https://models.example/v1"}]
    assert "providers" not in statements.Usage.unmetered().model_dump(mode="json", by_alias=True)
    bad = {**told, "providers": {"house": "file:///etc/passwd"}}
    with pytest.raises(TranscriptError):
        tape.usage_of(tape.chained([{**lane, "kind": "open", "data": bad}, {**lane, "kind": "close"}]))


def test_no_float_and_no_coercion() -> None:
    """Nothing that is signed is a float, and nothing is silently converted."""
    values = dict.fromkeys(statements.Caps.model_fields, 1)
    assert statements.Caps(**values).pids == 1
    for wrong in (1.0, "1", True, 0, -1, 2**53):
        with pytest.raises(ValidationError):
            statements.Caps.model_validate({**values, "pids": wrong})
    with pytest.raises(ValidationError):
        statements.Caps.model_validate({**values, "more": 1})


def test_only_public_statements_can_be_made(world: Any) -> None:
    """Private runs have no certificate (seed 003): the model has no other visibility."""
    data = world.screening().opened.predicate.model_dump()
    with pytest.raises(ValidationError):
        statements.OpeningPredicate(**{**data, "visibility": "private"})


def test_fault_class_follows_the_outcome() -> None:
    """Every outcome has its class, every reason its outcome."""
    assert set(rules.FAULT_CLASS) == set(Outcome)
    assert set(OUTCOME_OF) == set(Reason)


def test_comparability_covers_exactly_the_list(world: Any, lab: Any) -> None:
    """Seed 004: suite version, timeout, step limit, network policy, tools as a set, hardware, repeats,
    provenance; a change of anything else leaves the digest alone."""
    shot = world.screening()
    base = shot.opened.predicate.model_dump(mode="json", by_alias=True)
    digest = rules.comparability(base)

    def other(*path: Any) -> str:
        *way, last, value = path
        data = shot.opened.predicate.model_dump(mode="json", by_alias=True)
        place = data
        for step in way:
            place = place[step]
        place[last] = value
        return rules.comparability(data)

    for path in (
        ("pack", "version", "x"),
        ("plan", 0, "caps", "agentWallMs", 1),
        ("plan", 0, "tries", 0),
        ("conditions", "stepLimit", 9),
        ("conditions", "networkPolicy", "digest", "sha256", "0" * 64),
        ("conditions", "permittedTools", ["bash"]),
        ("conditions", "hardwareClass", "c9"),
        ("conditions", "runtime", "runsc"),
        ("conditions", "repeats", 5),
        ("provenanceLabel", "publisher-reported"),
    ):
        assert other(*path) != digest, path
    assert other("agent", "version", "9") == digest
    assert other("conditions", "costCapNusd", 1) == digest
    one = other("conditions", "permittedTools", ["bash", "search"])
    assert one == other("conditions", "permittedTools", ["search", "bash", "bash"])


def test_utc_text_is_whole_seconds() -> None:
    """Rounded down, always with Z."""
    assert statements.utc_text(1_790_000_000_999) == "2026-09-21T14:13:20Z"


def test_runner_identity_is_a_digest_of_our_sources() -> None:
    """Version and digest of the code that ran the attempt; stable within one process."""
    version, digest = runner.identity()
    assert version and len(digest) == 64
    assert runner.identity() == (version, digest)
