"""Reads the relay's transcript of an attempt: a hash chain of JSON lines, and the money that follows from it.

A line is a record; its hash is the SHA-256 of its bytes without the line end, and names the next record's
`prev`. The hash of the last record stands in the certificate. `workers.relay.transcript` writes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from orchestrator.evidence.errors import EvidenceError

START: Final = "0" * 64
"""`prev` of the first record."""


class TranscriptError(EvidenceError):
    """A transcript is no unbroken chain; `line` counts from 1."""

    code = "transcript"

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line} of the transcript {problem}")
        self.line = line


class Kind(StrEnum):
    """What a record is about."""

    OPEN = "open"
    REQUEST = "request"
    SENT = "sent"
    DENY = "deny"
    ADMIT = "admit"
    HEAD = "head"
    BODY = "body"
    SETTLE = "settle"
    RELEASE = "release"
    CLOSE = "close"


@dataclass(frozen=True)
class Chain:
    """The readable, unbroken part of a transcript; `torn_bytes` after it belong to a write cut short."""

    records: tuple[Mapping[str, Any], ...]
    head: str
    torn_bytes: int


def read(raw: bytes) -> Chain:
    """Check a whole transcript; `TranscriptError` names the first line that does not fit the chain.

    A last line without its line end is a torn write: it is left out, never believed.
    """
    whole = raw[: raw.rfind(b"\n") + 1]
    head, records = START, []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise TranscriptError(number, "is not JSON") from None
        if not isinstance(record, dict) or record.get("seq") != number - 1:
            raise TranscriptError(number, "is not the record with this number")
        if record.get("prev") != head:
            raise TranscriptError(number, "does not follow from the line before")
        _check_payload(number, record.get("payload"))
        head = hashlib.sha256(line).hexdigest()
        records.append(record)
    return Chain(tuple(records), head, len(raw) - len(whole))


def _check_payload(number: int, payload: Any) -> None:
    if payload is None:
        return
    try:
        text, encoded = payload.get("text"), payload.get("base64")
        if text is None and encoded is None:
            return
        raw = text.encode() if text is not None else base64.b64decode(encoded, validate=True)
    except (AttributeError, ValueError, TypeError):
        raise TranscriptError(number, "has a payload that cannot be read") from None
    if hashlib.sha256(raw).hexdigest() != payload.get("sha256"):
        raise TranscriptError(number, "has a payload that is not the one it names")


def read_whole(raw: bytes) -> tuple[Mapping[str, Any], ...]:
    """The records up to the first line that does not fit: for the money of a crash, never for evidence."""
    while True:
        try:
            return read(raw).records
        except TranscriptError as error:
            raw = b"".join(line + b"\n" for line in raw.split(b"\n")[: error.line - 1])


@dataclass(frozen=True)
class Ledger:
    """Money of a lane from its records alone. `open_holds` maps a call to its hold in nano-USD."""

    settled_nusd: int = 0
    open_holds: Mapping[int, int] = field(default_factory=dict)
    closed: bool = False

    @property
    def spent_nusd(self) -> int:
        """What counts against the cap: settled calls, and the hold of every call that was never settled."""
        return self.settled_nusd + sum(self.open_holds.values())


def ledger_of(records: tuple[Mapping[str, Any], ...]) -> Ledger:
    """Replay the money of a transcript, finished or not."""
    settled, holds, closed = 0, dict[int, int](), False
    for record in records:
        kind, call, data = record["kind"], record["call"], record["data"]
        if kind == Kind.ADMIT:
            holds[call] = data["holdNusd"]
        elif kind == Kind.RELEASE:
            holds.pop(call, None)
        elif kind == Kind.SETTLE:
            holds.pop(call, None)
            settled += data["bookedNusd"]
        elif kind == Kind.CLOSE:
            closed = True
    return Ledger(settled, holds, closed)
