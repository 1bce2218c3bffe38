"""A lost attempt's transcript becomes evidence with the ledger that follows from it, or not at all."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from orchestrator.certificates.metered import ledger_of, usage_of
from orchestrator.evidence import metering, observed
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import Kind
from orchestrator.ids import new_id
from orchestrator.observations import Observations
from scoring.vocabulary import Reason
from workers.relay.transcript import FILE_NAME, Transcript

PRICES = {"id": "house", "date": datetime.date(2026, 1, 1).isoformat(), "digest": "0" * 64}
ADMIT = {"model": "m", "provider": "p", "purpose": "generate", "holdNusd": 700}


@pytest.fixture
def transcript(tmp_path: Path) -> bytes:
    """One call that was admitted and never settled."""
    written = Transcript(tmp_path / "lane", "lane")
    written.add(Kind.OPEN, 0, {"prices": PRICES})
    written.add(Kind.REQUEST, 1, {}, b"{}")
    written.add(Kind.ADMIT, 1, ADMIT)
    written.close()
    return (tmp_path / "lane" / FILE_NAME).read_bytes()


def _sealed(folder: Path, transcript: bytes | None) -> dict[str, bytes]:
    """The evidence of a lost attempt by path."""
    store = EvidenceStore(folder / "store")
    digest, decision = observed.seal_alone(
        store,
        attempt_id=new_id(),
        try_id=new_id(),
        seen=Observations(worker_lost=True),
        transcript=transcript,
    )
    assert decision.reason is Reason.WORKER_LOST
    manifest = EvidenceManifest.from_bytes(store.read(digest, 1 << 20))
    return {file.path: store.read(file.sha256 or "", 1 << 20) for file in manifest.files}


def test_an_open_hold_is_certified_as_unknown(tmp_path: Path, transcript: bytes) -> None:
    """What is left out of the sums is counted as a request; a torn last line was never acted upon."""
    files = _sealed(tmp_path, transcript + b'{"seq":3,"torn')
    assert files[metering.TRANSCRIPT_FILE] == transcript
    assert files[metering.FILE_NAME] == ledger_of(transcript)
    usage = usage_of(files[metering.TRANSCRIPT_FILE])
    assert (usage.metered, usage.requests, usage.cost_nusd) == (True, 1, None)


@pytest.mark.parametrize("damage", ["changed", "dropped", "no opening", "empty", "torn only"])
def test_what_is_no_whole_chain_is_no_evidence(tmp_path: Path, transcript: bytes, damage: str) -> None:
    """A transcript that proves nothing is left out: then the attempt's usage is unknown, not wrong."""
    lines = transcript.splitlines(keepends=True)
    damaged = {
        # In the second line; the last one's hash stands in no other yet.
        "changed": transcript.replace(b'"payload"', b'"Payload"'),
        "dropped": lines[0] + lines[2],
        "no opening": b"",
        "empty": b"\n",
        "torn only": lines[0][:-1],
    }[damage]
    assert set(_sealed(tmp_path, damaged)) == {observed.FILE_NAME}


def test_without_a_relay_there_is_no_transcript(tmp_path: Path) -> None:
    """As before: the observations alone."""
    assert set(_sealed(tmp_path, None)) == {observed.FILE_NAME}
