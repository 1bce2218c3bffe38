"""Whether ledger, log and evidence belong together: what `assize doctor --after-restore` proves.

Three things are copied at three moments, and any of them may come back from an older copy than the others.
Every certificate of the ledger must be in the log; the log must know nothing that the ledger does not; every
manifest that the ledger names must be in the store, and hash to its name with all its files; every recorded
attempt must have its certificate. Each finding says what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from orchestrator.certificates.log_status import verifier_of
from orchestrator.certificates.logbook import entry_of
from orchestrator.certificates.trust import TrustRoot
from orchestrator.custody.roots import RootStore
from orchestrator.errors import AssizeError
from orchestrator.evidence.archive import open_store
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest, read_withheld
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger import invariants
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, Certificate, Evidence, Screening, TrySlot
from orchestrator.ledger.states import CLOSED_SCREENINGS
from orchestrator.log import entry
from orchestrator.log.reader import LogReader
from orchestrator.log.tiles import WIDTH
from orchestrator.verification.errors import VerificationError

_NEWER_LOG: Final = (
    "restore the newest copy of the log; do not screen before, the log refuses to be begun again"
)
_NEWER_LEDGER: Final = "restore a newer backup of the database; what the log has must not be run again"
_NEWER_EVIDENCE: Final = "restore the evidence store from a copy that is as new as the ledger"


@dataclass(frozen=True)
class Mismatch:
    """One thing that does not fit: which check, what is wrong, what to do."""

    check: str
    message: str
    mend: str


def mismatches(home: Home, ledger: Ledger) -> list[Mismatch]:
    """Everything that does not fit together; empty means that the restored home can be worked with."""
    found = [
        Mismatch("ledger", f"invariant {one.number}: {one.message}", "restore another backup of the database")
        for one in invariants.violations(ledger)
        # A live attempt of the time of the backup has no worker any more; the next run takes it over.
        if one.number != 11
    ]
    found += _log(home, ledger)
    found += _evidence(open_store(home.evidence), ledger)
    found += _uncertified(ledger)
    return found


def _log(home: Home, ledger: Ledger) -> Iterator[Mismatch]:
    roots = RootStore.of(home)
    with ledger.reading() as connection:
        rows = connection.execute(sa.select(Certificate.id, Certificate.envelope)).all()
    if not roots.exists:
        if rows:
            yield Mismatch(
                "trust root", "there are certificates and no trust root", "restore trust-root.json"
            )
        return
    try:
        trust = roots.current()
    except (AssizeError, VerificationError) as error:
        yield Mismatch("trust root", f"the trust root is refused: {error}", "restore its newest version")
        return
    logged, problems = _entries(home, trust)
    yield from problems
    known: set[bytes] = set()
    for row in rows:
        try:
            keyid, raw = entry_of(row.envelope, trust)
        except (AssizeError, VerificationError) as error:
            yield Mismatch("certificates", f"certificate {row.id} cannot be read: {error}", _NEWER_LEDGER)
            continue
        known.add(raw)
        origin = trust.keys[keyid].log
        if origin is not None and raw not in logged:
            yield Mismatch("log", f"certificate {row.id} is not in the log {origin}", _NEWER_LOG)
    yield from _ahead(logged - known, _ended(ledger))


def _entries(home: Home, trust: TrustRoot) -> tuple[set[bytes], list[Mismatch]]:
    """Every entry of every log of the trust root, and the logs that cannot be read."""
    entries: set[bytes] = set()
    problems = []
    for origin in trust.logs:
        folder, signed = home.log / origin, home.log_state / origin
        if not folder.exists():
            if signed.exists():
                problems.append(
                    Mismatch("log", f"{origin} was signed here and its files are gone", _NEWER_LOG)
                )
            continue
        try:
            reader = LogReader(folder, verifier_of(trust, origin))
            if reader.tiles.root() != reader.checkpoint.root:
                raise VerificationError("log-root", "the tiles do not give the signed root")
            for number in range((reader.checkpoint.size + WIDTH - 1) // WIDTH):
                entries.update(reader.tiles.entries(number))
        except VerificationError as error:
            problems.append(Mismatch("log", f"{origin} does not hold: {error.message}", _NEWER_LOG))
    return entries, problems


def _ended(ledger: Ledger) -> set[str]:
    """The places in a log that the ledger has something for: ended attempts, and its screenings."""
    query = (
        sa.select(TrySlot.screening_id, TrySlot.task_id, TrySlot.k, Attempt.number)
        .join(Attempt, Attempt.slot_id == TrySlot.id)
        .where(Attempt.outcome.is_not(None))
    )
    with ledger.reading() as connection:
        tries = {entry.Position(*row).line() for row in connection.execute(query)}
        screenings = list(connection.scalars(sa.select(Screening.id)))
    return tries | {
        entry.Position(one, word, 0, 0).line() for one in screenings for word in ("-opening", "-summary")
    }


def _ahead(unknown: set[bytes], ended: set[str]) -> Iterator[Mismatch]:
    """Statements that the log has and that the ledger can never have made.

    An entry whose attempt ended but whose row is missing is what a crash between the two leaves: certifying
    goes on from there.
    """
    for where in sorted(entry.check(raw).decode() for raw in unknown):
        word = where.split(" ")[1]
        aside = word.startswith("-") and word not in ("-opening", "-summary")
        if not aside and where not in ended:
            yield Mismatch("ledger", f"the log has {where}, the ledger does not", _NEWER_LEDGER)


def _evidence(store: EvidenceStore, ledger: Ledger) -> Iterator[Mismatch]:
    with ledger.reading() as connection:
        rows = connection.execute(sa.select(Evidence.attempt_id, Evidence.manifest_digest)).all()
    for row in rows:
        try:
            _hash_again(store, row.manifest_digest)
        except AssizeError as error:
            yield Mismatch("evidence", f"attempt {row.attempt_id}: {error.message}", _NEWER_EVIDENCE)


def _hash_again(store: EvidenceStore, digest: str) -> None:
    """The manifest and every file that it names, the withheld ones by their salts where they are kept."""
    manifest = EvidenceManifest.from_bytes(store.read(digest, MANIFEST_LIMIT_BYTES))
    secret = read_withheld(store, digest)
    for file in manifest.files:
        if file.sha256 is not None:
            store.verify(file.sha256)
        elif file.path in secret:
            store.verify(secret[file.path].sha256, withheld=True)


def _uncertified(ledger: Ledger) -> Iterator[Mismatch]:
    """Attempts of closed public screenings that ended with an outcome and have no certificate."""
    query = (
        sa.select(Attempt.id, Screening.id.label("screening"), Screening.conditions)
        .join(Screening, Screening.id == Attempt.screening_id)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.outcome.is_not(None), Certificate.id.is_(None), Screening.state.in_(CLOSED_SCREENINGS))
        .order_by(Attempt.id)
    )
    with ledger.reading() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        if row.conditions.get("visibility") != "private":
            yield Mismatch(
                "certificates",
                f"attempt {row.id} of the closed screening {row.screening} has no certificate",
                "`assize screen` of the same screening certifies what is left",
            )
