"""The manifest names every file of one attempt, in one spelling, with withheld files salted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator import canonical
from orchestrator.certificates import schema
from orchestrator.evidence import observed
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import (
    EvidenceFile,
    EvidenceManifest,
    ManifestBuilder,
    Role,
    WithheldFile,
    read_withheld,
    seal,
)
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import decide
from orchestrator.observations import Clock, Death, Observations, VerdictProblem
from scoring.vocabulary import Reason

ATTEMPT, TRY = "01JAB4" + "0" * 20, "01JAB3" + "0" * 20


@pytest.fixture
def store(tmp_path: Path) -> EvidenceStore:
    return EvidenceStore(tmp_path)


def filled(store: EvidenceStore) -> ManifestBuilder:
    builder = ManifestBuilder(store, attempt_id=ATTEMPT, try_id=TRY)
    builder.add_bytes("z.txt", Role.TRANSCRIPT, b"said")
    builder.add_bytes("a/diff.patch", Role.DIFF, b"")
    builder.withhold("tests.tar", Role.HIDDEN_TESTS, b"hidden")
    return builder


def test_sealed_manifest_is_canonical_and_sorted(store: EvidenceStore) -> None:
    """Its digest is that of its stored canonical bytes, and the verifier's table accepts it."""
    digest = filled(store).seal()
    raw = store.read(digest, 10_000)
    assert hashlib.sha256(raw).hexdigest() == digest
    data = canonical.decode_strict(raw)
    assert [file["path"] for file in data["files"]] == ["a/diff.patch", "tests.tar", "z.txt"]
    assert (data["attemptId"], data["tryId"]) == (ATTEMPT, TRY)
    assert schema.read_manifest(raw) == data
    assert EvidenceManifest.from_bytes(raw).to_bytes() == raw


def test_withheld_file_shows_only_a_salted_digest(store: EvidenceStore) -> None:
    """A bare digest of something guessable would tell it: the salt is fresh, secret and kept apart."""
    digests = []
    for _ in range(2):
        digest = filled(store).seal()
        entry = json.loads(store.read(digest, 10_000))["files"][1]
        assert "sha256" not in entry
        secret = read_withheld(store, digest)["tests.tar"]
        salted = hashlib.sha256(bytes.fromhex(secret.salt) + b"hidden").hexdigest()
        assert entry["saltedSha256"] == salted
        assert secret.sha256 == hashlib.sha256(b"hidden").hexdigest()
        digests.append(entry["saltedSha256"])
    assert digests[0] != digests[1]


def test_equal_files_of_two_attempts_have_different_manifests(store: EvidenceStore) -> None:
    """Evidence cannot be moved between attempts."""
    digests = set()
    for attempt_id in (ATTEMPT, TRY):
        builder = ManifestBuilder(store, attempt_id=attempt_id, try_id=TRY)
        builder.add_bytes("a", Role.TRANSCRIPT, b"same")
        digests.add(builder.seal())
    assert len(digests) == 2


def test_seal_needs_exactly_the_salts_of_withheld_files(store: EvidenceStore) -> None:
    """No withheld file without its salt, no salt without a withheld file."""
    plain = EvidenceFile(path="a", role=Role.DIFF, size=1, sha256="a" * 64)
    hidden = EvidenceFile(path="b", role=Role.HIDDEN_TESTS, size=1, salted_sha256="b" * 64)
    secret = WithheldFile(salt="c" * 64, sha256="d" * 64)
    for files, salts in (((plain,), {"a": secret}), ((plain, hidden), {}), ((hidden,), {"x": secret})):
        manifest = EvidenceManifest(attempt_id=ATTEMPT, try_id=TRY, files=files)
        with pytest.raises(EvidenceError, match="salt"):
            seal(manifest, store, salts)


BAD_FILES: dict[str, dict[str, Any]] = {
    "both-digests": {"sha256": "a" * 64, "saltedSha256": "a" * 64},
    "no-digest": {},
    "short-digest": {"sha256": "a" * 63},
    "upper-case-digest": {"sha256": "A" * 64},
    "digest-with-newline": {"sha256": "a" * 64 + "\n"},
    "parent": {"path": "../a", "sha256": "a" * 64},
    "absolute": {"path": "/a", "sha256": "a" * 64},
    "empty-part": {"path": "a//b", "sha256": "a" * 64},
    "dot": {"path": "./a", "sha256": "a" * 64},
    "control": {"path": "a\nb", "sha256": "a" * 64},
    "empty-path": {"path": "", "sha256": "a" * 64},
    "role": {"role": "music", "sha256": "a" * 64},
    "negative-size": {"size": -1, "sha256": "a" * 64},
    "float-size": {"size": 1.0, "sha256": "a" * 64},
    "boolean-size": {"size": True, "sha256": "a" * 64},
    "extra": {"sha256": "a" * 64, "note": "x"},
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_entries_are_refused(name: str) -> None:
    """The model is strict: one digest, a plain relative path, a known role, an integer size."""
    with pytest.raises(ValidationError):
        EvidenceFile.model_validate({"path": "a", "role": "diff", "size": 1, **BAD_FILES[name]})


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b'{"files": []}', b"[]", b'{"attemptId":"x","files":[],"tryId":"y"}']
)
def test_other_bytes_are_not_a_manifest(raw: bytes) -> None:
    """One typed error for anything else."""
    with pytest.raises((EvidenceError, canonical.CanonicalFormError)):
        EvidenceManifest.from_bytes(raw)


def test_path_twice_is_refused(store: EvidenceStore) -> None:
    """Two files under one path would make one of them invisible."""
    builder = filled(store)
    with pytest.raises(EvidenceError, match="twice"):
        builder.add_bytes("z.txt", Role.DIFF, b"other")


def test_file_is_copied_from_disk(store: EvidenceStore, tmp_path: Path) -> None:
    """Streamed in; a file that cannot be read is one typed error."""
    (tmp_path / "log").write_bytes(b"x" * 3_000_000)
    builder = filled(store)
    assert builder.add_file("log", Role.COMMAND_LOG, tmp_path / "log").size == 3_000_000
    with pytest.raises(EvidenceError, match="cannot be read"):
        builder.add_file("absent", Role.COMMAND_LOG, tmp_path / "absent")


def test_unreadable_side_file_is_a_typed_error(store: EvidenceStore) -> None:
    """Salts that cannot be read do not pass as absent."""
    digest = filled(store).seal()
    store.side_file(digest).write_bytes(b'{"withheld":[{"path":"a"}]}')
    with pytest.raises(EvidenceError, match="cannot be read"):
        read_withheld(store, digest)
    assert read_withheld(store, "0" * 64) == {}


VECTORS = [
    Observations(worker_lost=True),
    Observations(agent_started=True, agent_clock=Clock.WALL, agent_clock_value=5),
    Observations(agent_started=True, agent_death=Death.OOM),
    Observations(agent_started=True, verdict_problem=VerdictProblem.CONTRADICTORY, grader_proven=True),
    Observations(agent_started=True, reward="0.5", reward_passes=False, grader_proven=True),
]


@pytest.mark.parametrize("seen", VECTORS, ids=lambda seen: decide(seen).rule)
def test_observations_survive_the_file(seen: Observations) -> None:
    """The vector read back gives the same decision."""
    assert observed.decode(observed.encode(seen, decide(seen))) == seen


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b'{"observations":{"nonsense":1}}',
        b'{"observations":{"agent_clock":"moon"}}',
        b'{"observations":[]}',
    ],
)
def test_other_bytes_are_not_observations(raw: bytes) -> None:
    """Unknown fields and values are refused, never skipped."""
    with pytest.raises(EvidenceError, match="not an observation vector"):
        observed.decode(raw)


def test_lost_attempt_is_sealed_with_its_observations(store: EvidenceStore) -> None:
    """A worker that vanished is certified like any other end: its manifest holds what was seen."""
    digest, decision = observed.seal_alone(
        store, attempt_id=ATTEMPT, try_id=TRY, seen=Observations(worker_lost=True)
    )
    assert decision.reason is Reason.WORKER_LOST
    files = json.loads(store.read(digest, 10_000))["files"]
    assert [file["role"] for file in files] == ["observations"]
