"""The signer looks for itself: what it refuses to sign, and that it signs one thing one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import issue, statements, trust
from orchestrator.certificates.errors import CertificateError, SigningRefusedError
from orchestrator.certificates.signer import FileSigner
from orchestrator.evidence.manifest import ManifestBuilder, Role


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
    spoil(world, manifest, "command-log", lambda path: path.write_bytes(b"another"))
    with pytest.raises(SigningRefusedError, match="altered"):
        shot.certify_again("alpha", 1, lab.PASS)
    spoil(world, manifest, "command-log", lambda path: path.unlink())
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


def test_usage_must_follow_from_the_transcript(world: Any, lab: Any, tape: Any) -> None:
    """Row 29: tokens, money, prices and the transcript's head are those that the relay recorded."""
    shot = world.screening()
    raw = tape.transcript(
        tape.settled(60, 40, 10, 3_000),
        tape.settled(40, 0, 10, 2_000, standard_nusd=1_900),
        attempt_id=shot.attempt_id("alpha", 1),
    )
    files, usage = tape.files_of(raw), tape.usage_of(raw)
    shot.run("alpha", 1, lab.PASS, usage=usage, extra=files)
    changes: list[dict[str, Any]] = [
        {"cost_nusd": 4_999},
        {"standard_cost_nusd": 5_000},
        {"requests": 1},
        {"output_tokens": 21},
        {"price_list": usage.price_list.model_copy(update={"date": "2026-10-01"})},
        {"transcript": usage.transcript.model_copy(update={"head": lab.sha("x")})},
    ]
    wrong = [usage.model_copy(update=change) for change in changes]
    for claimed in (*wrong, statements.Usage.unmetered(), statements.Usage.none_possible()):
        with pytest.raises(SigningRefusedError, match="not what follows"):
            shot.run("alpha", 1, lab.PASS, usage=claimed, extra=files)


def test_a_transcript_that_does_not_hold_is_not_signed(world: Any, lab: Any, tape: Any) -> None:
    """Row 29: a line changed, dropped or without its ledger makes the whole of it worthless."""
    shot = world.screening()
    raw = tape.transcript(tape.settled(60, 40, 10, 3_000))
    files, usage = tape.files_of(raw), tape.usage_of(raw)
    lines = raw.splitlines(keepends=True)
    for damaged in (raw.replace(b"3000", b"2000"), b"".join(lines[:1] + lines[2:]), raw[:-1]):
        broken = {**files, "relay/transcript.jsonl": (Role.TRANSCRIPT, damaged)}
        with pytest.raises(SigningRefusedError, match=r"transcript does not hold|not what follows"):
            shot.run("alpha", 1, lab.PASS, usage=usage, extra=broken)
    other = {**files, "relay/ledger.jsonl": (Role.METERING_LEDGER, b"{}\n")}
    with pytest.raises(SigningRefusedError, match="not the one that follows"):
        shot.run("alpha", 2, lab.PASS, usage=usage, extra=other)
    alone = {name: file for name, file in files.items() if file[0] is Role.TRANSCRIPT}
    with pytest.raises(SigningRefusedError, match="or neither"):
        shot.run("alpha", 3, lab.PASS, usage=usage, extra=alone)


def test_one_call_that_is_not_exact_leaves_no_figure(world: Any, lab: Any, tape: Any) -> None:
    """Seed 004: cost is n/a, not estimated; the number of requests is still known."""
    shot = world.screening()
    raw = tape.transcript(
        tape.settled(60, 40, 10, 3_000),
        {"completeness": "bounded", "bookedNusd": 9_000_000},
        attempt_id=shot.attempt_id("alpha", 1),
    )
    usage = tape.usage_of(raw)
    assert (usage.requests, usage.cost_nusd, usage.output_tokens) == (2, None, None)
    shot.run("alpha", 1, lab.PASS, usage=usage, extra=tape.files_of(raw))


def test_metered_usage_without_a_transcript_is_not_signed(world: Any, lab: Any, tape: Any) -> None:
    """Without relay and network nothing can have been used; unknown stays unknown."""
    shot = world.screening()
    with pytest.raises(SigningRefusedError, match="no transcript"):
        shot.run("alpha", 1, lab.PASS, usage=tape.usage_of(tape.transcript(tape.settled(1, 0, 1, 1))))
    shot.run("alpha", 1, lab.PASS, usage=statements.Usage.unmetered())
    shot.run("alpha", 1, lab.PASS, usage=statements.Usage.none_possible())


def test_undeclared_withholding_is_not_signed(world: Any, lab: Any) -> None:
    """Hidden tests may be withheld for every task, other evidence only where the task says so."""
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    assert any("saltedSha256" in file for file in json.loads(signed.manifest)["files"])
    slot = shot.certificates[0][1].slot
    builder = ManifestBuilder(world.store, attempt_id=slot.attempt_id, try_id=slot.id)
    builder.withhold("stdout.txt", Role.COMMAND_LOG, b"said")
    with pytest.raises(SigningRefusedError, match="withholds none"):
        world.signer.sign(statements.Statement(builder.seal(), shot.certificates[0][1]))


def test_evidence_without_observations_is_not_signed(world: Any, lab: Any) -> None:
    """An outcome that its evidence cannot give again is an assertion, not a record."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    slot = shot.certificates[0][1].slot
    builder = ManifestBuilder(world.store, attempt_id=slot.attempt_id, try_id=slot.id)
    builder.add_bytes("stdout.txt", Role.COMMAND_LOG, b"said")
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
