"""The bytes that are logged for a statement (certificates.md 3.4): four lines that anyone can recompute.

    assize.example/log-entry/v1
    <hex SHA-256 of the PAE bytes>
    <key id> <base64 signature>
    <screening id> <task id> <index> <attempt>

The signature is inside, so the log commits to the signed object and not to a spelling of JSON. The last
line is the entry's unique key: a monitor sees double certification without any body. Statements that
belong to no try, and the link to an earlier shard, have a word with a hyphen where a task id stands,
which no task id begins with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.log.checkpoint import Checkpoint
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

HEADER: Final = b"assize.example/log-entry/v1\n"
LIMIT_BYTES: Final = 1024
SHARD: Final = "-shard"
_WORDS: Final = {
    "screening-opening": "-opening",
    "screening-summary": "-summary",
    "notice": "-notice",
}
_NAME: Final = rb"[A-Za-z0-9][A-Za-z0-9._:@/+_-]{0,127}"
_NUMBER: Final = rb"(?:0|[1-9][0-9]{0,15})"
_KEY: Final = rb"%b (?:%b|-(?!shard )[a-z]{1,32}) %b %b" % (_NAME, _NAME, _NUMBER, _NUMBER)
_SIGNED: Final = rb"[0-9a-f]{32} [A-Za-z0-9+/]{86}==\n(%b)\n" % _KEY
_LINK: Final = rb"%b [A-Za-z0-9+/]{43}=\n(%b -shard 0 0)\n" % (_NUMBER, _NAME)
_ENTRY: Final = re.compile(rb"%b[0-9a-f]{64}\n(?:%b|%b)" % (re.escape(HEADER), _SIGNED, _LINK))


@dataclass(frozen=True, slots=True)
class Position:
    """The unique key of an entry."""

    screening: str
    task: str
    index: int
    attempt: int

    def line(self) -> str:
        """The last line, without its line feed."""
        return f"{self.screening} {self.task} {self.index} {self.attempt}"


def position(kind: str, predicate: Mapping[str, Any]) -> Position:
    """Where a verified statement of `kind` (`try-certificate/v1`, ..) belongs, from its predicate.

    There is one opening and one summary per screening; a notice has an id of its own.
    """
    stem = kind.partition("/")[0]
    if stem == "try-certificate":
        slot = predicate["try"]
        return Position(predicate["screening"]["id"], predicate["task"]["id"], slot["index"], slot["attempt"])
    if stem not in _WORDS:
        raise VerificationError("entry-form", f"no log entry is defined for {kind:.80}")
    owner = predicate["statementId"] if stem == "notice" else predicate["screening"]["id"]
    return Position(owner, _WORDS[stem], 0, 0)


def statement_entry(signed_bytes: bytes, keyid: str, signature: bytes, where: Position) -> bytes:
    """The entry of a signed statement: PAE bytes, and the one trusted key with its signature.

    To be called with what a verifier has just checked, never with what a bundle claims to be logged.
    Raises `VerificationError` (`entry-form`) when a part has another shape.
    """
    return digest_entry(hashlib.sha256(signed_bytes).hexdigest(), keyid, signature, where)


def digest_entry(digest: str, keyid: str, signature: bytes, where: Position) -> bytes:
    """The same from the hex SHA-256 of the PAE bytes, for who has just hashed them."""
    middle = f"{keyid} {wire.base64_encode(signature).decode()}"
    return _checked(digest, middle, where)


def shard_entry(previous: Checkpoint) -> bytes:
    """The first entry of a new shard: commits to the last checkpoint of the one before."""
    digest = hashlib.sha256(previous.body()).hexdigest()
    middle = f"{previous.size} {wire.base64_encode(previous.root).decode()}"
    return _checked(digest, middle, Position(previous.origin, SHARD, 0, 0))


def _checked(digest: str, middle: str, where: Position) -> bytes:
    raw = HEADER + f"{digest}\n{middle}\n{where.line()}\n".encode()
    check(raw)
    return raw


def check(raw: bytes) -> bytes:
    """The unique key of an entry in its one strict form; raises `VerificationError` (`entry-form`)."""
    match = _ENTRY.fullmatch(raw)
    if match is None or len(raw) > LIMIT_BYTES:
        raise VerificationError("entry-form", "a log entry that is not in its one strict form")
    return match[1] or match[2]


def shard_origin(base: str, year: int) -> str:
    """The origin of a yearly shard, such as `assize.example/log/2026`."""
    return f"{base}/{year:04}"
