"""The signing side of the log: what is entered, what is refused, and what a reader gets."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator import handover
from orchestrator.certificates import bundle, founding, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.errors import CertificateError, SigningRefusedError
from orchestrator.certificates.logbook import Logbook, entry_of
from orchestrator.certificates.logged import LogChecks, statement_path
from orchestrator.certificates.report import screening_data, screening_text, try_text
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.tiles import Tiles
from orchestrator.verification.errors import VerificationError
from scoring.tries import CertificateState

Make = Callable[..., Logbook]


@pytest.fixture
def make(lab: ModuleType, tmp_path: Path) -> Make:
    """Logbooks of one home under any trust root."""

    def logbook(root: bytes | None = None, key: str = "log") -> Logbook:
        checked = trust.parse(lab.trust_root(logged=True) if root is None else root)
        return Logbook(tmp_path / "log", tmp_path / "state", checked, lambda: lab.key(key))

    return logbook


def enter_all(logbook: Logbook, shot: Any) -> list[bytes]:
    """Log a whole screening in its order; its envelopes."""
    envelopes = [shot.opening.envelope, *(s.envelope for s, _ in shot.certificates), shot.summary().envelope]
    assert [logbook.enter(envelope) for envelope in envelopes] == list(range(len(envelopes)))
    return envelopes


def packed(logbook: Logbook, shot: Any, envelopes: list[bytes]) -> bytes:
    names = ["opening", *(f"{n:06d}" for n in range(1, len(envelopes) - 1)), "summary"]
    proofs = logbook.prove(envelopes)
    members = {name: one.without_checkpoint() for name, one in zip(names, proofs, strict=True)}
    shared = bundle.ScreeningProofs(proofs[0].checkpoint, members)
    return bundle.encode_screening(envelopes[0], shot.tries(), envelopes[-1], shared)


def test_entered_once_and_proven(make: Make, world: Any, lab: Any, tmp_path: Path) -> None:
    """Every envelope gets the next index, again gives the same one; proofs share one checkpoint."""
    logbook, shot = make(), world.screening().usual()
    envelopes = enter_all(logbook, shot)
    assert [logbook.enter(envelope) for envelope in envelopes] == list(range(12))
    proofs = logbook.prove(envelopes)
    assert len({one.checkpoint for one in proofs}) == 1
    assert [one.index for one in proofs] == list(range(12))
    root = trust.parse(lab.trust_root(logged=True))
    assert verify_screening_bundle(packed(logbook, shot, envelopes), root).exit_code == 0
    folder = logbook.folder(lab.ORIGIN)
    for envelope in envelopes:
        digest = entry_of(envelope, root)[1].split(b"\n")[1].decode()
        assert (folder / statement_path(digest)).read_bytes() == envelope
    found = audit_log(folder, root)
    assert (found.exit_code, found.size, found.read, found.withheld, found.unclosed) == (0, 12, 12, 0, 0)
    counts = {"screening-opening/v1": 1, "try-certificate/v1": 10, "screening-summary/v1": 1}
    assert found.statements == counts


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"from_index": 1}, "is for 1.."),
        ({"until_index": 0}, "is for 0..0"),
        ({"revoked": {"fromIndex": 0, "reason": "lost", "announcedAt": "2026-10-09T08:00:00Z"}}, "revoked"),
    ],
    ids=["not-yet", "no-longer", "revoked"],
)
def test_nothing_is_logged_that_no_verifier_would_accept(
    changes: dict[str, Any], told: str, make: Make, world: Any, lab: Any
) -> None:
    """Rows 5 and 6 on the signing side: the position is asked under the lock, before anything is written."""
    logbook = make(lab.trust_root(logged=True, **changes))
    with pytest.raises(SigningRefusedError, match=told):
        logbook.enter(world.screening().opening.envelope)
    assert list(logbook.folder(lab.ORIGIN).glob("statement")) == []


def test_a_closed_log_and_foreign_keys_are_refused(make: Make, world: Any, lab: Any) -> None:
    """A log with a final size takes no more; a key of no log, and an envelope of nobody, are refused."""
    envelope = world.screening().opening.envelope
    entry = founding.log_entry(lab.ORIGIN, lab.key("log").public, final_size=0)
    with pytest.raises(SigningRefusedError, match="closed"):
        make(lab.trust_root(logged=True, logs=[entry])).enter(envelope)
    with pytest.raises(CertificateError, match="no log in the trust root"):
        make(key="attacker").enter(envelope)
    with pytest.raises(VerificationError, match="no-trusted-key"):
        make().enter(lab.resign(lab.payload_of(envelope), lab.key("attacker")))
    with pytest.raises(VerificationError, match="inclusion"):
        make().prove([envelope])


def root_of(lab: Any, **changes: Any) -> TrustRoot:
    return trust.parse(lab.trust_root(logged=True, **changes))


def test_memory_follows_a_growing_log(make: Make, world: Any, lab: Any, tmp_path: Path) -> None:
    """Rows 39 and 42: what was seen is remembered, and the published tiles prove the way from there."""
    logbook, first = make(), world.screening("first").usual()
    root, memory = root_of(lab), CheckpointMemory(tmp_path / "memory")
    one = packed(logbook, first, enter_all(logbook, first))

    def consistency(smaller: Any, larger: Any) -> list[bytes]:
        return Tiles(logbook.folder(larger.origin), larger.size).consistency_proof(smaller.size)

    def ask(raw: bytes, *, proven: bool) -> Any:
        logs = LogChecks(root, memory, consistency if proven else None)
        result = verify_screening_bundle(raw, root, logs=logs)
        if result.exit_code == 0:
            logs.remember()
        return result

    assert ask(one, proven=False).log.remembered is None
    assert ask(one, proven=False).log.remembered == 12
    second = world.screening("second")
    logbook.enter(second.opening.envelope)
    envelopes = [first.opening.envelope, *(s.envelope for s, _ in first.certificates)]
    two = packed(logbook, first, [*envelopes, first.summary().envelope])
    assert ask(two, proven=False).reasons == ("consistency-missing",)
    result = ask(two, proven=True)
    assert (result.exit_code, result.log.size, result.log.remembered) == (0, 13, 12)
    assert ask(one, proven=False).reasons == ("rollback",)
    assert ask(one, proven=True).exit_code == 0
    shown = screening_text(result, root)
    assert f"logged      yes  12 entries of 13, {lab.ORIGIN}; consistent with remembered size 12" in shown
    assert "witnessed   no   not witnessed" in shown


def test_reports_of_a_single_certificate(make: Make, world: Any, lab: Any) -> None:
    """Section 3.6: index, size and log; without a proof the reason is named, and it does not count."""
    logbook, shot = make(), world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    logbook.enter(shot.opening.envelope)
    logbook.enter(signed.envelope)
    root = root_of(lab)
    raw = bundle.encode_try(signed.envelope, signed.manifest, logbook.prove([signed.envelope])[0].encode())
    assert f"logged      yes  index 1 of 2, {lab.ORIGIN}" in try_text(verify_try_bundle(raw, root), root)
    revoked = {"fromIndex": 9, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}
    later = root_of(lab, until_index=20, revoked=revoked)
    assert "(log positions 0..9), try-certificate/v1" in try_text(verify_try_bundle(raw, later), later)
    bare = verify_try_bundle(bundle.encode_try(signed.envelope, signed.manifest), root)
    assert bare.exit_code == 1
    shown = try_text(bare, root)
    assert "logged      NO   no proof" in shown and "reason      not-logged: " in shown
    data = screening_data(verify_screening_bundle(shot.pack(), root), root)
    assert data["log"] is None and "not-logged" in data["reasons"]


def test_unlogged_certificates_never_reach_a_score(make: Make, world: Any, lab: Any) -> None:
    """Property: under a trust root with a log, taking proofs away never makes a try count, and shows."""
    logbook, shot = make(), world.screening().usual()
    files = bundle.decode_screening(packed(logbook, shot, enter_all(logbook, shot)))
    root, chance = root_of(lab), random.Random(11)
    whole = handover.from_files(files, root, pack_is_current=True)
    assert {one.certificate for one in whole.tries} == {CertificateState.VALID}
    assert files.proofs is not None
    for _ in range(20):
        kept = {
            name: one
            for name, one in files.proofs.members.items()
            if name == "opening" or chance.random() < 0.6
        }
        fewer = bundle.ScreeningFiles(
            files.opening, files.tries, files.summary, bundle.ScreeningProofs(files.proofs.checkpoint, kept)
        )
        given = handover.from_files(fewer, root, pack_is_current=True)
        lost = [number for number, _ in files.tries if f"{number:06d}" not in kept]
        valid = {one.certificate_digest for one in given.tries if one.certificate is CertificateState.VALID}
        unlogged = {one.digest for one in given.result.tries if one.number in lost}
        assert not valid & unlogged
        assert (given.result.exit_code == 1) == (len(kept) < len(files.proofs.members))
    with pytest.raises(VerificationError, match="not-logged"):
        handover.from_files(
            bundle.ScreeningFiles(files.opening, files.tries, files.summary), root, pack_is_current=True
        )


def test_edited_logged_bundles_are_never_accepted(make: Make, world: Any, lab: Any) -> None:
    """Bytes changed anywhere in a logged screening, its proofs included: never 0, never 3, never raised."""
    logbook, shot = make(), world.screening().usual()
    raw = packed(logbook, shot, enter_all(logbook, shot))
    root, chance = root_of(lab), random.Random(12)
    start = raw.index(b"log/checkpoint") - 30
    for _ in range(400):
        data = bytearray(raw)
        data[chance.randrange(start, len(raw))] ^= 1 << chance.randrange(8)
        assert verify_screening_bundle(bytes(data), root).exit_code in (1, 2, 4)
    text = bundle.encode_try(
        shot.certificates[0][0].envelope,
        shot.certificates[0][0].manifest,
        logbook.prove([shot.certificates[0][0].envelope])[0].encode(),
    )
    for _ in range(400):
        data = bytearray(text)
        data[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
        assert verify_try_bundle(bytes(data), root).exit_code in (1, 2, 4)
