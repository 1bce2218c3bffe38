"""Read what became of a row from the ledger, the signed certificates and the verified bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.drills.judge import SeenAttempt, SeenTry
from orchestrator.ledger import invariants, queries
from orchestrator.ledger.queries import AttemptView
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.screenings.bundling import predicate_of
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.scorecard import score_screening
from scoring.tries import CertificateState
from scoring.vocabulary import Outcome, Reason


@dataclass(frozen=True)
class Record:
    """One closed screening: the signed end of every attempt, and what a scorer is handed for every try."""

    installation: Installation
    screening_id: str
    signed: Mapping[str, tuple[str, str]]
    handed: Mapping[tuple[str, int], str]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, installation: Installation, screening_id: str) -> Record:
        """Verify its bundle and read its certificates."""
        stored = certificates(installation.ledger, screening_id, CertificateKind.TRY)
        results = {str(one.attempt_id): predicate_of(one)["result"] for one in stored}
        scored = score_screening(installation, screening_id, with_floor=False)
        problems = [str(one) for one in invariants.violations(installation.ledger)]
        problems += [
            f"the certificate of {one.task_id} try {one.index} does not hold"
            for one in scored.handover.tries
            if one.certificate is not CertificateState.VALID
        ]
        return cls(
            installation,
            screening_id,
            {key: (str(one["outcome"]), str(one["reason"])) for key, one in results.items()},
            {(one.task_id, one.index): one.outcome.value for one in scored.handover.tries},
            tuple(problems),
        )

    def tries(self, task_id: str) -> list[SeenTry]:
        """The tries of a task."""
        slots = queries.tries(self.installation.ledger, self.screening_id, task_id=task_id)
        return [self._try(str(slot.row["id"]), task_id, int(slot.row["k"])) for slot in slots]

    def _try(self, slot_id: str, task_id: str, k: int) -> SeenTry:
        view = queries.show_try(self.installation.ledger, slot_id)
        attempts = [self._attempt(one) for one in view.attempts if one.row["outcome"] is not None]
        return SeenTry(attempts, str(view.row["state"]), self.handed.get((task_id, k)))

    def _attempt(self, view: AttemptView) -> SeenAttempt:
        details: Mapping[str, Any] = view.row["details"] or {}
        observed: Mapping[str, Any] = details.get("observations") or {}
        return SeenAttempt(
            outcome=Outcome(view.row["outcome"]),
            reason=Reason(view.row["reason"]),
            suspect=bool(view.row["suspect"]),
            named={name: observed.get(name) for name in details.get("evidence") or ()},
            observed=observed,
            certified=self.signed.get(view.row["id"]),
            payers=frozenset(payer for payer, _ in view.spend),
        )
