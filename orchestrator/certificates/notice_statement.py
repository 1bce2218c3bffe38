"""`notice/v1`: what is said of a certificate, a screening or a key after it was logged; it deletes nothing.

A notice never changes a statement. Which kinds change what a certificate counts for is decided by the
verifier (`notices`), not by the notice.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from orchestrator.certificates import schema
from orchestrator.certificates.statements import (
    Id,
    Name,
    Ordinal,
    Predicate,
    Sha256,
    Statement,
    Strict,
    Ulid,
    Utc,
    utc_text,
)
from orchestrator.ids import new_id
from orchestrator.verification import ed25519

KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Kind = Literal["correction", "supersession", "contamination", "key-event"]
KeyEvent = Literal["added", "rotated", "retired", "revoked", "compromised", "destroyed"]
Text = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{1,1000}$")]


class NoticedScreening(Strict):
    """The screening that a notice is about, or that its certificate belongs to."""

    id: Ulid
    opening_digest: Sha256


class NoticedTry(Strict):
    """Which attempt the certificate is of."""

    task_id: Name
    index: Ordinal
    attempt: Ordinal


class NoticedKey(Strict):
    """The key, and what happened to it."""

    keyid: KeyId
    event: KeyEvent


class NoticePredicate(Predicate):
    """`notice/v1`, about a certificate (`slot`, `screening`), an opening (`screening`) or a key (`key`).

    `replaced_by` is the digest of the statement that stands in the place of a superseded one.
    """

    STATEMENT = schema.NOTICE
    SUBJECT = schema.TRY_SUBJECT

    statement_id: Ulid
    kind: Kind
    screening: NoticedScreening | None
    slot: NoticedTry | None = Field(alias="try")
    key: NoticedKey | None
    replaced_by: Sha256 | None
    reason: Text
    time: NoticeTime

    def subject_name(self) -> str:
        """What the notice is about."""
        if self.key is not None:
            return schema.KEY_SUBJECT
        return schema.SCREENING_SUBJECT if self.slot is None else schema.TRY_SUBJECT


class NoticeTime(Strict):
    """When the notice was issued."""

    issued_at: Utc


NoticePredicate.model_rebuild()


def key_digest(public: bytes) -> str:
    """How a notice names a key: the whole hash of which the key id is the beginning."""
    return hashlib.sha256(ed25519.ALGORITHM.encode() + b"\n" + public).hexdigest()


def statement_id(subject: str, kind: Kind, reason: str, replaced_by: str | None, *, at_unix_ms: int) -> str:
    """A ULID of what the notice says: the same notice, issued again, takes the same place in the log.

    `at_unix_ms` is the time of what it is about, which does not change.
    """
    said = "\n".join(("notice", subject, kind, replaced_by or "", reason))
    return new_id(at_unix_ms, int.from_bytes(hashlib.sha256(said.encode()).digest()[:10], "big"))


def notice(
    *,
    issuer: Id,
    subject: str,
    kind: Kind,
    reason: str,
    about_unix_ms: int,
    issued_unix_ms: int,
    screening: NoticedScreening | None = None,
    slot: NoticedTry | None = None,
    key: NoticedKey | None = None,
    replaced_by: str | None = None,
) -> Statement:
    """The unsigned notice about `subject`, the hex digest of a certificate, an opening or a key."""
    predicate = NoticePredicate.model_validate(
        {
            "issuer": issuer,
            "statementId": statement_id(subject, kind, reason, replaced_by, at_unix_ms=about_unix_ms),
            "kind": kind,
            "screening": screening,
            "try": slot,
            "key": key,
            "replacedBy": None if replaced_by is None else Sha256(sha256=replaced_by),
            "reason": reason,
            "time": NoticeTime(issued_at=utc_text(issued_unix_ms)),
        }
    )
    return Statement(subject, predicate)
