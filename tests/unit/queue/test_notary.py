"""The signer of many hosts goes round while workers end tries and close screenings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.records import CertificateKind, add_certificate
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import (
    AttemptEnd,
    Claim,
    claim,
    close,
    end_attempt,
    hand_to,
    queue,
    start,
)
from orchestrator.observations import Observations
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.notary import Notary
from scoring.vocabulary import OUTCOME_OF, Phase, Reason


def passed() -> AttemptEnd:
    """The end of a try that counts."""
    reason = Reason.ALL_CHECKS_PASSED
    details = {"observations": Observations().as_data(), "evidence": [], "phases": []}
    return AttemptEnd(
        outcome=OUTCOME_OF[reason],
        reason=reason,
        phase=Phase.GRADE,
        rule="scripted",
        manifest_digest="a" * 64,
        nusd=None,
        details=details,
    )


class Signer:
    """Stands where a `Certifier` stands, and lets a worker come in between."""

    def __init__(self, ledger: Ledger, screening: str, between: Callable[[], None]) -> None:
        self._ledger, self._screening, self._between = ledger, screening, between
        self.certified: list[str] = []
        self.summed_up: list[list[str]] = []

    def certify(self, attempt_id: str) -> None:
        add_certificate(
            self._ledger,
            screening_id=self._screening,
            kind=CertificateKind.TRY,
            digest=attempt_id.lower().rjust(64, "0"),
            envelope=b"{}",
            who="test",
            attempt_id=attempt_id,
        )
        self.certified.append(attempt_id)
        self._between()

    def close(self) -> None:
        self.summed_up.append(list(self.certified))


def test_a_summary_waits_for_what_ended_meanwhile(
    home: Home, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker ends the last try and closes the screening after the signer has looked what there is to
    certify: a summary that was signed now would call an honest try unaccounted for."""
    screening = plan_stub(ledger, ["a", "b"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 2)
    owner = register(ledger).id
    held: list[Claim] = []
    for _ in range(2):
        found = claim(ledger, screening, owner, lease_ms=9_000)
        assert found is not None
        held.append(found)
    hand_to(ledger, screening, EngineName.CELERY, who="test")
    end_attempt(ledger, held[0], passed())

    def come_in_between() -> None:
        if len(signer.certified) == 1:
            end_attempt(ledger, held[1], passed())
            close(ledger, screening, who="test")

    signer = Signer(ledger, screening, come_in_between)
    installation = Installation(home.prepare(), ledger, EvidenceStore(home.evidence))
    notary = Notary(installation)
    monkeypatch.setattr(notary, "_certifier", lambda screening_id: signer)
    assert notary.turn() == [] and signer.summed_up == []
    assert notary.turn() == []
    both: list[Any] = [[one.attempt_id for one in held]]
    assert signer.summed_up == both
