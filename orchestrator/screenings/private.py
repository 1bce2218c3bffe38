"""A private screening: evidence and the ledger's record, and nothing that is signed (seed 003).

Its tries have no certificate, so nothing of it can verify, be scored as certified or stand on a board. What
was private stays private: the visibility is among the conditions, which are fixed before the first try.
"""

from __future__ import annotations

from orchestrator.errors import UsageError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.screenings.opening import Sponsors


class PrivateError(UsageError):
    """A private screening has no certificates: there is nothing to score, export, show or notice."""

    code = "private"


def is_private(ledger: Ledger, screening_id: str) -> bool:
    """Whether a screening was planned as private."""
    conditions: dict[str, object] = queries.screening(ledger, screening_id)["conditions"]
    return conditions.get("visibility") == "private"


def require_public(ledger: Ledger, screening_id: str) -> None:
    """Raises `PrivateError` for a private screening."""
    if is_private(ledger, screening_id):
        raise PrivateError(
            f"screening {screening_id} is private: it has evidence, and no certificate was or will be issued",
            hint=f"`assize tries {screening_id}` shows its record; a certified one is a new screening",
        )


class PrivateRecord:
    """Stands where a `Certifier` stands; signs and logs nothing."""

    def open(self, sponsors: Sponsors) -> None:
        """No opening statement: who asked and who pays is in the ledger."""

    def certify(self, attempt_id: str) -> None:
        """No certificate: the attempt's evidence was sealed when it ended."""

    def close(self) -> None:
        """No summary, and no bundle."""
