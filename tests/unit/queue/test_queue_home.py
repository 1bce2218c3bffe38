"""What campaigns keep in the home: relays of ended attempts, packs and agents by digest, one signer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.agents import registry
from orchestrator.engine.stub import plan_stub
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import Claim, cancel, claim, queue, start, stop_attempt
from orchestrator.packs.refusals import Deviation
from orchestrator.screenings.bundling import write_file
from orchestrator.screenings.images import TaskImages
from orchestrator.screenings.kept import (
    KeptError,
    _agent,
    _keep_images,
    _keep_pack,
    _kept_images,
    kept_agent,
    kept_pack,
)
from orchestrator.screenings.notary import only_one
from orchestrator.screenings.relay_checks import relay_violations

BEAT = 20_000


def running(ledger: Ledger) -> Claim:
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    held = claim(ledger, screening, register(ledger).id, lease_ms=120_000)
    assert held is not None
    return held


def wrote(home: Home, held: Claim, late_ms: int) -> None:
    """The relay of the attempt wrote so much later than now."""
    path = home.root / "relay" / held.attempt_id / "agent" / "transcript.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")
    at = path.stat().st_mtime + late_ms / 1000
    os.utime(path, (at, at))


@pytest.mark.parametrize(("cancelled", "number"), [(False, 8), (True, 13)])
def test_a_key_that_outlived_its_lease_is_named(
    home: Home, ledger: Ledger, cancelled: bool, number: int
) -> None:
    """Invariants 8 and 13: one heartbeat of delay is allowed, a call after it is a violation."""
    held = running(ledger)
    wrote(home, held, 10 * BEAT)
    assert relay_violations(home, ledger, beat_ms=BEAT) == []  # it lives
    if cancelled:
        cancel(ledger, held.screening_id, who="test")
    stop_attempt(ledger, held, who="test")
    assert [one.number for one in relay_violations(home, ledger, beat_ms=BEAT)] == [number]
    wrote(home, held, 0)
    assert relay_violations(home, ledger, beat_ms=BEAT) == []


def test_what_is_kept_is_what_was_planned_or_refused(home: Home) -> None:
    """A worker runs what the ledger's digests name, or nothing: missing and altered are one sentence each."""
    from orchestrator.packs.catalog import resolve

    pack = resolve(home, "coding-core").load()
    with pytest.raises(KeptError, match="not kept"):
        kept_pack(home, pack.digest)
    _keep_pack(home, pack)
    _keep_pack(home, pack)
    assert kept_pack(home, pack.digest).digest == pack.digest
    oracle = registry.resolve(home, "oracle")
    with pytest.raises(KeptError, match="not kept"):
        kept_agent(home, oracle.digest)
    write_file(_agent(home, oracle.digest), oracle.revision.canonical_bytes())
    assert kept_agent(home, oracle.digest).revision == oracle.revision
    nop = registry.resolve(home, "nop")
    write_file(_agent(home, oracle.digest), nop.revision.canonical_bytes())
    with pytest.raises(KeptError, match="altered"):
        kept_agent(home, oracle.digest)


def test_one_process_signs_at_a_time(tmp_path: Path) -> None:
    """Two signers would certify an attempt twice; the later one leaves it to the first."""
    folder = tmp_path
    with only_one(folder) as first, only_one(folder) as second:
        assert (first, second) == (True, False)
    with only_one(folder) as third:
        assert third


def test_every_image_of_a_task_is_kept_for_its_workers(tmp_path: Path) -> None:
    """A worker without the images of a task's services would run it without them, and blame the agent."""
    home = Home(tmp_path / "home")
    whole = TaskImages("a", "g", (Deviation("stand-in", "said"),), {"store": "s"}, "p")
    plain = TaskImages("a", "a")
    bench: Any = SimpleNamespace(images={"one": whole, "two": plain})
    _keep_images(home, "some-screening", bench)
    assert _kept_images(home, "some-screening") == {"one": whole, "two": plain}
    assert (sorted(whole.every()), sorted(plain.every())) == (["a", "g", "p", "s"], ["a"])
    path = next((home.root / "kept").rglob("some-screening.json"))
    path.write_text(json.dumps({"one": {"agent": "a", "grader": "g"}}))
    with pytest.raises(KeptError, match="not kept"):
        _kept_images(home, "some-screening")
