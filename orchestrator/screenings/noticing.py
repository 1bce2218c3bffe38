"""Issuing a notice: about a certificate, a whole screening, or a key.

The log is the only record. A notice's id follows from what it says, so the same notice issued again, or
after a crash at any point, finds itself in the log: it is never there twice, and never in two versions.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.logbook import Logbook, entry_of
from orchestrator.certificates.notice_statement import (
    KeyEvent,
    Kind,
    NoticedKey,
    NoticedScreening,
    NoticedTry,
    key_digest,
    notice,
)
from orchestrator.certificates.statements import Sha256, Statement
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.log.errors import LogConflictError
from orchestrator.screenings.bundling import predicate_of, statement_of, write_screening_bundle
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.lookup import Meant, find, opening_of
from orchestrator.screenings.recertify import statement_from
from orchestrator.verification.errors import VerificationError

_REASON: Final = re.compile(r"[\x20-\x7e]{1,1000}")
_KEY_ID: Final = re.compile(r"[0-9a-f]{6,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Request:
    """What is to be noticed. `event` goes with a key event, `replaced_by` with a supersession."""

    target: str
    kind: Kind
    reason: str
    event: KeyEvent | None = None
    replaced_by: str | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Drafted:
    """An unsigned notice, in words, and the screening whose bundle lists it."""

    statement: Statement
    about: str
    screening_id: str | None


@dataclass(frozen=True)
class Issued:
    """A notice that is in the log at `index`; `fresh` is False for one that was there before."""

    digest: str
    index: int
    origin: str
    fresh: bool
    issued_at: str


def draft(installation: Installation, asked: Request) -> Drafted:
    """The statement for a request; raises `UsageError` for what cannot be said, `NotFoundError` for whom."""
    if not _REASON.fullmatch(asked.reason):
        raise UsageError("the reason is one line of plain ASCII text, 1 to 1000 characters")
    if (asked.kind == "key-event") != (asked.event is not None):
        raise UsageError("a key-event needs --event, and nothing else takes it")
    if asked.replaced_by is not None and asked.kind != "supersession":
        raise UsageError("only a supersession names another certificate in its place (--replaced-by)")
    if asked.kind == "key-event":
        return _about_key(installation, asked)
    meant = find(installation.ledger, asked.target, asked.attempt)
    return _about_certificate(installation, asked, meant)


def _about_key(installation: Installation, asked: Request) -> Drafted:
    root = installation.trust_root()
    fitting = [key for key in root.keys.values() if key.keyid.startswith(asked.target)]
    if not _KEY_ID.fullmatch(asked.target) or len(fitting) != 1:
        known = ", ".join(sorted(root.keys))
        raise NotFoundError(
            f"the trust root has no one certificate key {asked.target}", hint=f"its certificate keys: {known}"
        )
    key = fitting[0]
    statement = notice(
        issuer=root.issuer,
        subject=key_digest(key.public.public_bytes_raw()),
        kind="key-event",
        reason=asked.reason,
        about_unix_ms=_unix_ms(key.not_before),
        issued_unix_ms=_now_ms(),
        key=NoticedKey(keyid=key.keyid, event=asked.event or "rotated"),
    )
    return Drafted(statement, f"key {key.keyid} ({asked.event})", None)


def _about_certificate(installation: Installation, asked: Request, meant: Meant) -> Drafted:
    ledger = installation.ledger
    opening = opening_of(ledger, meant.screening_id)
    stored = meant.certificate or opening
    if stored.kind is CertificateKind.SUMMARY:
        raise UsageError("a summary only lists: notice the screening, or one of its certificates")
    body: dict[str, Any] = predicate_of(stored)
    slot, about = None, f"screening {meant.screening_id} as a whole"
    if stored.kind is CertificateKind.TRY:
        place = body["try"]
        slot = NoticedTry(task_id=body["task"]["id"], index=place["index"], attempt=place["attempt"])
        about = (
            f"certificate {stored.digest[:16]}: {slot.task_id} try {slot.index} attempt {slot.attempt} "
            f"of screening {meant.screening_id} ({body['result']['outcome']})"
        )
    statement = notice(
        issuer=body["issuer"],
        subject=stored.digest,
        kind=asked.kind,
        reason=asked.reason,
        about_unix_ms=_unix_ms(body["time"]["issuedAt"]),
        issued_unix_ms=_now_ms(),
        screening=NoticedScreening(id=meant.screening_id, opening_digest=Sha256(sha256=opening.digest)),
        slot=slot,
        replaced_by=_successor(ledger, asked.replaced_by, stored),
    )
    return Drafted(statement, about, meant.screening_id)


def _successor(ledger: Ledger, wanted: str | None, stored: StoredCertificate) -> str | None:
    """The digest that stands in the place of a superseded one; one of another ledger is given whole."""
    if wanted is None:
        return None
    digest = wanted
    if not _DIGEST.fullmatch(wanted):
        found = find(ledger, wanted)
        digest = (found.certificate or opening_of(ledger, found.screening_id)).digest
    if digest == stored.digest:
        raise UsageError("a certificate cannot stand in its own place")
    return digest


def issue(installation: Installation, drafted: Drafted) -> Issued:
    """Sign and log a notice, then write the bundle of its screening anew.

    Raises `SigningRefusedError` for a trust root whose certificate key may not sign notices.
    """
    logbook = installation.logbook()
    if logbook is None:
        raise CertificateError(
            "this home keeps no log, and a notice that is not logged says nothing",
            hint="its trust root was made before certificates were logged; a new home has a log",
        )
    signer = installation.signer()
    _require_logged(installation, drafted)
    signed = signer.sign(drafted.statement)
    envelope, digest, fresh = signed.envelope, signed.digest, not _is_logged(logbook, signed.envelope)
    try:
        index = logbook.enter(envelope)
    except LogConflictError as conflict:
        # The same notice of an earlier moment: it stands as it was signed then.
        earlier = logbook.statement(conflict.held)
        if earlier is None or not _says_the_same(earlier, envelope):
            raise
        envelope, digest, fresh = earlier, conflict.held.split(b"\n")[1].decode(), False
        if logbook.is_void(envelope):  # its key is revoked, so it holds for nobody any more
            envelope = signer.sign(statement_from(earlier)).envelope
            logbook.enter(envelope)
        index = logbook.prove([envelope])[0].index
    if drafted.screening_id is not None:
        refresh(installation, drafted.screening_id)
    root = installation.trust_root()
    origin = root.keys[entry_of(envelope, root)[0]].log or ""
    return Issued(digest, index, origin, fresh, statement_of(envelope)["predicate"]["time"]["issuedAt"])


def _is_logged(logbook: Logbook, envelope: bytes) -> bool:
    try:
        logbook.prove([envelope])
    except VerificationError:
        return False
    return True


def _require_logged(installation: Installation, drafted: Drafted) -> None:
    """A notice comes after what it is about: proven now, not assumed."""
    logbook = installation.logbook()
    subject = drafted.statement.subject_sha256
    if drafted.screening_id is None or logbook is None:
        return
    stored = [one for one in certificates(installation.ledger, drafted.screening_id) if one.digest == subject]
    logbook.prove([one.envelope for one in stored])


def _says_the_same(one: bytes, other: bytes) -> bool:
    """Equal but for the moment of issue."""
    pair = [statement_of(envelope) for envelope in (one, other)]
    for statement in pair:
        del statement["predicate"]["time"]
    return pair[0] == pair[1]


def refresh(installation: Installation, screening_id: str) -> None:
    """Write the bundle of a closed screening anew, with every notice about it; an open one has none yet."""
    closed = certificates(installation.ledger, screening_id, CertificateKind.SUMMARY)
    if closed:
        write_screening_bundle(installation, screening_id, closed[0].envelope)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _unix_ms(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()) * 1000
