"""The signer looks for itself: what it refuses to sign, and that it signs one thing one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import canonical
from orchestrator.certificates import issue, statements, trust
from orchestrator.certificates.errors import CertificateError, SigningRefusedError
from orchestrator.certificates.signer import FileSigner
from orchestrator.evidence.manifest import ManifestBuilder, Role

PRICES = statements.PriceList(id="list", date="2026-10-01", digest=statements.Sha256(sha256="a" * 64))


def usage(**changes: Any) -> statements.Usage:
    values: dict[str, Any] = {
        "metered": True,
        "requests": 2,
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "output_tokens": 20,
        "cost_nusd": 5_000,
        "paid_tool_calls_nusd": 0,
        "price_list": PRICES,
    }
    return statements.Usage(**{**values, **changes})


def ledger(*calls: tuple[int, int, int, int]) -> bytes:
    return b"\n".join(
        canonical.encode(
            {
                "requests": 1,
                "inputTokens": read,
                "cachedInputTokens": cached,
                "outputTokens": written,
                "costNusd": cost,
                "paidToolCallsNusd": 0,
            }
        )
        for read, cached, written, cost in calls
    )


def spoil(world: Any, manifest: bytes, role: str, change: Callable[[Path], object]) -> None:
    entry = next(file for file in json.loads(manifest)["files"] if file["role"] == role)
    change(world.store.path(entry["sha256"]))


def test_signing_is_deterministic(world: Any, lab: Any) -> None:
    """The same statement gives the same bytes, so a crash between signing and storing is harmless."""
    shot = world.screening()
    first = shot.run("alpha", 1, lab.PASS)
    again = shot.run("alpha", 1, lab.PASS)
    assert (first.envelope, first.digest) == (again.envelope, again.digest)
    assert first.digest == lab.digest_of(first.envelope)


def test_altered_and_missing_evidence_is_not_signed(world: Any, lab: Any) -> None:
    """Every file is hashed again at signing."""
    shot = world.screening()
    manifest = shot.run("alpha", 1, lab.PASS).manifest
    spoil(world, manifest, "transcript", lambda path: path.write_bytes(b"another"))
    with pytest.raises(SigningRefusedError, match="altered"):
        shot.certify_again("alpha", 1, lab.PASS)
    spoil(world, manifest, "transcript", lambda path: path.unlink())
    with pytest.raises(SigningRefusedError, match="not in the store"):
        shot.certify_again("alpha", 1, lab.PASS)


def test_altered_withheld_evidence_is_not_signed(world: Any, lab: Any) -> None:
    """The signer has the salts, so it checks withheld files too."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    hidden = next(path for path in (world.store.root / "withheld" / "sha256").rglob("*") if path.is_file())
    hidden.write_bytes(b"other tests")
    with pytest.raises(SigningRefusedError, match="altered"):
        shot.certify_again("alpha", 1, lab.PASS)


def test_evidence_of_another_attempt_is_not_signed(world: Any, lab: Any) -> None:
    """Evidence cannot be moved between tries."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    shot.run("alpha", 2, lab.PASS)
    one, two = (predicate for _, predicate in shot.certificates)
    subject = lab.payload_of(shot.certificates[0][0].envelope)["subject"][0]["digest"]["sha256"]
    assert one.slot.id != two.slot.id
    with pytest.raises(SigningRefusedError, match="another attempt"):
        world.signer.sign(statements.Statement(subject, two))


def test_relabelled_outcome_is_not_signed(world: Any, lab: Any) -> None:
    """Row 25: a failure called a platform fault contradicts the observations in the evidence."""
    shot = world.screening()
    shot.run("alpha", 1, lab.WRONG)
    _, predicate = shot.certificates[0]
    lost = shot.world.screening("x")
    lost.run("alpha", 1, lab.LOST)
    relabelled = predicate.model_copy(update={"result": lost.certificates[0][1].result})
    subject = lab.payload_of(shot.certificates[0][0].envelope)["subject"][0]["digest"]["sha256"]
    with pytest.raises(SigningRefusedError, match=r"observations say failed/wrong_output"):
        world.signer.sign(statements.Statement(subject, relabelled))


def test_usage_must_be_the_sum_of_the_ledger(world: Any, lab: Any) -> None:
    """Row 29: tokens and money in the certificate are those that the relay metered."""
    shot = world.screening()
    lines = {"metering.jsonl": (Role.METERING_LEDGER, ledger((60, 40, 10, 3_000), (40, 0, 10, 2_000)))}
    shot.run("alpha", 1, lab.PASS, usage=usage(), extra=lines)
    for wrong in (usage(cost_nusd=4_999), usage(requests=1), statements.Usage.unmetered()):
        with pytest.raises(SigningRefusedError, match="not the sum"):
            shot.run("alpha", 1, lab.PASS, usage=wrong, extra=lines)
    broken = {"metering.jsonl": (Role.METERING_LEDGER, b'{"requests":true}')}
    with pytest.raises(SigningRefusedError, match="no usable"):
        shot.run("alpha", 2, lab.PASS, usage=usage(), extra=broken)
    broken = {"metering.jsonl": (Role.METERING_LEDGER, b"{]")}
    with pytest.raises(SigningRefusedError, match="not canonical JSON"):
        shot.run("alpha", 3, lab.PASS, usage=usage(), extra=broken)


def test_metered_usage_without_a_ledger_is_not_signed(world: Any, lab: Any) -> None:
    """Without relay and network nothing can have been used; unknown stays unknown."""
    shot = world.screening()
    with pytest.raises(SigningRefusedError, match="no metering ledger"):
        shot.run("alpha", 1, lab.PASS, usage=usage())
    shot.run("alpha", 1, lab.PASS, usage=statements.Usage.unmetered())
    shot.run("alpha", 1, lab.PASS, usage=statements.Usage.none_possible())


def test_undeclared_withholding_is_not_signed(world: Any, lab: Any) -> None:
    """Hidden tests may be withheld for every task, other evidence only where the task says so."""
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    assert any("saltedSha256" in file for file in json.loads(signed.manifest)["files"])
    slot = shot.certificates[0][1].slot
    builder = ManifestBuilder(world.store, attempt_id=slot.attempt_id, try_id=slot.id)
    builder.withhold("transcript.txt", Role.TRANSCRIPT, b"said")
    with pytest.raises(SigningRefusedError, match="withholds none"):
        world.signer.sign(statements.Statement(builder.seal(), shot.certificates[0][1]))


def test_evidence_without_observations_is_not_signed(world: Any, lab: Any) -> None:
    """An outcome that its evidence cannot give again is an assertion, not a record."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    slot = shot.certificates[0][1].slot
    builder = ManifestBuilder(world.store, attempt_id=slot.attempt_id, try_id=slot.id)
    builder.add_bytes("transcript.txt", Role.TRANSCRIPT, b"said")
    with pytest.raises(SigningRefusedError, match="no observations"):
        world.signer.sign(statements.Statement(builder.seal(), shot.certificates[0][1]))
    builder.add_bytes("observations.json", Role.OBSERVATIONS, b"{}")
    with pytest.raises(SigningRefusedError, match="not an observation vector"):
        world.signer.sign(statements.Statement(builder.seal(), shot.certificates[0][1]))


def test_key_outside_the_trust_root_does_not_sign(world: Any, lab: Any) -> None:
    """Nothing is signed that no verifier would accept: unknown key, wrong usage, wrong time, wrong issuer."""
    shot = world.screening()
    statement = statements.Statement(lab.hex_of("pack2026.9"), shot.opened.predicate)
    roots = {
        "not-there": (lab.key("attacker"), world.trust),
        "usage": (lab.key("cert"), trust.parse(lab.trust_root(usages=["try-certificate/v1"]))),
        "window": (lab.key("cert"), trust.parse(lab.trust_root(not_after="2026-02-01T00:00:00Z"))),
        "expired": (lab.key("cert"), trust.parse(lab.trust_root(expires_at="2026-02-01T00:00:00Z"))),
        "issuer": (lab.key("cert"), trust.parse(lab.trust_root(issuer="assize.example/other"))),
    }
    for key, root in roots.values():
        with pytest.raises(SigningRefusedError, match=r"trust root"):
            FileSigner(key, world.store, root).sign(statement)
    assert world.signer.sign(statement).digest == shot.opening.digest


def test_contradictions_are_not_signed(world: Any, lab: Any) -> None:
    """The verifier's own rules run before the signature."""
    shot = world.screening()
    early = shot.opened.predicate.model_copy(
        update={
            "time": statements.OpeningTime(opened_at="2026-09-21T14:13:20Z", issued_at="2026-09-21T14:13:19Z")
        }
    )
    with pytest.raises(SigningRefusedError, match="time-order"):
        world.signer.sign(statements.Statement(lab.hex_of("pack2026.9"), early))


def test_report_without_evidence_cannot_be_certified(world: Any, lab: Any) -> None:
    """No subject, no certificate: the orchestrator first seals what was observed."""
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    assert signed.manifest is not None
    ended = lab.Ended(
        decision=lab.decide(lab.LOST),
        manifest_digest=None,
        reward=None,
        wall_ms=0,
        handed_off_unix_ms=0,
        finished_unix_ms=0,
        runtime="",
    )
    facts = issue.TryFacts(
        certificate_id=lab.ulid("c"),
        try_id=lab.ulid("t"),
        attempt_id=lab.ulid("a"),
        task_id="alpha",
        index=1,
        attempt=1,
        replaces=None,
        level="verified",
        grading_place="fresh",
        images=(),
        runner_version="0.1.0",
        runner_digest="0" * 64,
    )
    with pytest.raises(CertificateError, match="no evidence manifest"):
        issue.try_certificate(shot.opened, facts, ended, statements.Usage.unmetered(), issued_unix_ms=0)
    with pytest.raises(CertificateError, match="not in the opening"):
        shot.opened.task("nobody")
