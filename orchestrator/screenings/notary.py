"""The signer of campaigns on many hosts: certifies what workers recorded, closes what is complete.

It runs apart from workers, which hold no key: in `assize dispatch`, or in the `assize screen` that started
the campaign. One process of a home certifies at a time; another one that comes meanwhile leaves it to it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from orchestrator.errors import AssizeError
from orchestrator.evidence.errors import EvidenceError
from orchestrator.ledger import queries
from orchestrator.ledger.models import Attempt, Certificate, Screening
from orchestrator.ledger.records import CertificateKind
from orchestrator.ledger.states import CLOSED_SCREENINGS, EngineName
from orchestrator.screenings.certify import Certifier, UncertifiedError
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.kept import KeptError, signing_bench
from orchestrator.screenings.private import PrivateRecord, is_private
from orchestrator.screenings.relaying import forget_left

_LOCK: Final = "notary.lock"


@contextmanager
def only_one(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process may certify now; the kernel lets go of it when the process dies.

    With `wait` it may, as soon as no other process does.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def certify_ended(
    installation: Installation, certifier: Certifier | PrivateRecord, screening_id: str
) -> list[str]:
    """For who holds the lock: certify what has ended; returns what was left undone, and why."""
    undone = []
    for attempt_id in queries.certifiable(installation.ledger, [screening_id]):
        try:
            certifier.certify(attempt_id)
        except (UncertifiedError, EvidenceError) as error:
            undone.append(f"not certified: {error.message}")
        else:
            forget_left(installation.home, attempt_id)
    return undone


class Notary:
    """Certifies every screening of many hosts in one home; `turn` is called again and again."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._signer = installation.signer()
        self._issuer = installation.trust_root().issuer
        self._certifiers: dict[str, Certifier] = {}

    def turn(self) -> list[str]:
        """Certify what has ended, sign summaries of what is closed; returns what was left undone, and why.

        What could not be certified stays on the list and is tried again at the next turn.
        """
        with only_one(self._installation.home.keys) as mine:
            return self._turn() if mine else []

    def _turn(self) -> list[str]:
        undone = []
        for screening_id in _unfinished(self._installation):
            if is_private(self._installation.ledger, screening_id):
                continue
            try:
                certifier = self._certifier(screening_id)
            except (KeptError, AssizeError) as error:
                undone.append(f"screening {screening_id}: {error.message}")
                continue
            # Asked first: what ends from here on is listed at the next turn, and must be in the summary.
            closed = queries.screening(self._installation.ledger, screening_id)["closed_ms"] is not None
            left = certify_ended(self._installation, certifier, screening_id)
            undone += left
            if closed and not left:
                certifier.close()
        return undone

    def _certifier(self, screening_id: str) -> Certifier:
        found = self._certifiers.get(screening_id)
        if found is None:
            bench = signing_bench(self._installation, screening_id)
            found = Certifier(self._installation, self._signer, self._issuer, bench, screening_id)
            self._certifiers[screening_id] = found
        return found


def _unfinished(installation: Installation) -> list[str]:
    """Screenings of many hosts with an ended attempt that has no certificate, or closed without a summary."""
    uncertified = (
        sa.select(Attempt.id)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.screening_id == Screening.id, Attempt.outcome.is_not(None), Certificate.id.is_(None))
        .exists()
    )
    summary = (
        sa.select(Certificate.id)
        .where(Certificate.screening_id == Screening.id, Certificate.kind == CertificateKind.SUMMARY)
        .exists()
    )
    query = (
        sa.select(Screening.id)
        .where(
            Screening.engine == EngineName.CELERY,
            sa.or_(uncertified, sa.and_(Screening.state.in_(CLOSED_SCREENINGS), sa.not_(summary))),
        )
        .order_by(Screening.created_ms, Screening.id)
    )
    with installation.ledger.reading() as connection:
        return list(connection.scalars(query))
