"""Writes the transcript of one lane: what was asked, answered, refused and paid, as a hash chain.

Every line is written to the file before the relay acts on it, so the transcript is the write-ahead ledger
too: after a crash `spent = settled + open holds` follows from it (`orchestrator.evidence.transcript`).
Whatever is written has been redacted before; the hash is over what a reader sees.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from orchestrator.evidence.transcript import START, Kind

FILE_NAME: Final = "transcript.jsonl"
PAYLOAD_LIMIT_BYTES: Final = 256 << 20
"""Payload bytes kept per lane; beyond it records carry size and digest only. As JSON they take up to twice
the room, and must stay below what the signer reads."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(record)
    except TypeError:
        # Half a surrogate pair, in a name of the provider's for instance, must not cost us the record.
        return _ENCODER.encode(record).encode("utf-8", "replace")


def _payload(raw: bytes, keep: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    if not keep:
        return {**shown, "omitted": True}
    try:
        return {**shown, "text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {**shown, "base64": base64.b64encode(raw).decode()}


class Transcript:
    """Appends records to a new file; one writer.

    `head` and `records` include records that wait in memory for the next one (see `add`).
    """

    def __init__(self, folder: Path, lane_id: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path: Final = folder / FILE_NAME
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o600)
        self._lane = lane_id
        self._opened = time.monotonic_ns()
        self._payload_left = PAYLOAD_LIMIT_BYTES
        self._size = 0
        self._waiting: list[bytes] = []
        self._written = (START, 0)
        self.head = START
        self.records = 0

    def since_open_us(self) -> int:
        """Microseconds on the monotonic clock since the lane was opened."""
        return (time.monotonic_ns() - self._opened) // 1000

    def add(
        self,
        kind: Kind,
        call: int,
        data: Mapping[str, Any],
        payload: bytes | None = None,
        *,
        keep: bool = True,
        with_next: bool = False,
    ) -> None:
        """Append one record; returns when the operating system has it. `call` is 0 outside of a call.

        With `with_next` it waits in memory and is written together with the next record, whoever's that is:
        for a record that nothing rests on before that one is there. Raises `OSError` when something cannot be
        written, and forgets what waited: the caller must not go on as if it were there.
        """
        record: dict[str, Any] = {
            "seq": self.records,
            "atUs": self.since_open_us(),
            "lane": self._lane,
            "call": call,
            "kind": kind,
            "data": dict(data),
        }
        if payload is not None:
            keep = keep and len(payload) <= self._payload_left
            self._payload_left -= len(payload) if keep else 0
            record["payload"] = _payload(payload, keep)
        record["prev"] = self.head
        line = _line(record)
        self._waiting += (line, b"\n")
        self.head = hashlib.sha256(line).hexdigest()
        self.records += 1
        if not with_next:
            self._write()

    def _write(self) -> None:
        """All that waits or nothing: after half a line every later record would be lost to a reader."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self.head, self.records = self._written
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)
        self._written = self.head, self.records

    def close(self) -> None:
        """Give the file back after it has reached the disk."""
        if self._waiting:
            self._write()
        os.fsync(self._file)
        os.close(self._file)
