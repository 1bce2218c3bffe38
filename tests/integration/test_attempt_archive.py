"""An attempt's evidence in an archive: another host has all of it; without it there is no end to record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from orchestrator.evidence.archive import VARIABLE, open_store
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest, Role
from scoring.vocabulary import Outcome, Phase, Reason
from tests.assets.services.s3 import BUCKET, S3Server
from workers.attempt.runner import AttemptRunner

pytestmark = pytest.mark.docker

SOLVE = "echo done > /tmp/out.txt"
TEST = "[ -f /tmp/out.txt ] && echo 1 > /logs/verifier/reward.txt"


@pytest.fixture(autouse=True)
def told(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this worker's archive is."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(VARIABLE, f"s3://{BUCKET}/attempts")


def test_evidence_is_elsewhere_when_an_attempt_ends(
    runner: AttemptRunner, make_order: Callable[..., AttemptOrder], control: Any, tmp_path: Path
) -> None:
    """Every file of the manifest can be had by a host that never saw the worker's folder."""
    report = runner(make_order(SOLVE, TEST), control)
    assert report.decision.outcome is Outcome.PASSED and report.manifest_digest is not None
    other = open_store(tmp_path / "elsewhere")
    manifest = EvidenceManifest.from_bytes(other.read(report.manifest_digest, MANIFEST_LIMIT_BYTES))
    open_files = [file for file in manifest.files if file.sha256 is not None]
    assert {other.verify(str(file.sha256)).size for file in open_files} == {file.size for file in open_files}
    assert Role.SANDBOX_REPORT in {file.role for file in manifest.files}


def test_without_its_archive_an_attempt_is_the_platforms_fault(
    runner: AttemptRunner,
    make_order: Callable[..., AttemptOrder],
    control: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is convicted or passed on evidence that others cannot have, and no agent runs for it."""
    monkeypatch.setenv(VARIABLE, "s3://there-is-no-such-bucket")
    report = runner(make_order(SOLVE, TEST), control)
    assert Phase.AGENT not in control.phases
    assert (report.decision.outcome, report.decision.reason) == (
        Outcome.PLATFORM_FAULT,
        Reason.EVIDENCE_UNWRITABLE,
    )
    assert report.manifest_digest is None
