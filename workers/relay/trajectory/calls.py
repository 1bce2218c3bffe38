"""The calls of a transcript, each put together from its records."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.evidence.transcript import Kind
from workers.relay.routes import Purpose
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness

Record = Mapping[str, Any]

_ENDS: Final = (Kind.SETTLE, Kind.RELEASE)


@dataclass(eq=False)
class Call:
    """One admitted call. Times are microseconds since the lane was opened.

    `request` is None when its bytes were not kept. `answer` is what came of the body; `answer_omitted` says
    that part of it was not kept. `ended_us` and `end` (the data of its settlement or release) are missing
    after a crash.
    """

    number: int
    family: Family
    started_us: int
    request: bytes | None
    model: str
    purpose: Purpose
    status: int | None = None
    answer: bytearray = field(default_factory=bytearray)
    answer_omitted: bool = False
    ended_us: int | None = None
    settled: bool = False
    end: Record = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether usage and cost of the call are known exactly."""
        return self.end.get("completeness") == Completeness.EXACT

    @property
    def free(self) -> bool:
        """Whether it is sure that nothing was paid for it: it failed before it was served."""
        return self.ended_us is not None and not self.settled

    @property
    def trouble(self) -> bool:
        """Whether the call did not come to a proper end."""
        return not self.settled or bool(self.end.get("fault") or self.end.get("problem"))

    @property
    def omitted(self) -> list[str]:
        """Which of `request` and `answer` the transcript names by digest only."""
        given = (("request", self.request is None), ("answer", self.answer_omitted))
        return [name for name, missing in given if missing]


@dataclass(frozen=True)
class Denied:
    """A request that the relay refused; its body is not kept."""

    call: int
    at_us: int
    code: str
    message: str


@dataclass(frozen=True)
class Calls:
    """A transcript's calls in the order in which they were admitted, and what was refused."""

    made: tuple[Call, ...]
    denied: tuple[Denied, ...]


def _bytes(record: Record) -> bytes | None:
    """The payload of a record; None where it was not kept."""
    payload: Mapping[str, Any] = record.get("payload") or {}
    if "text" in payload:
        return str(payload["text"]).encode("utf-8")
    return base64.b64decode(payload["base64"]) if "base64" in payload else None


def _admitted(asked: Record, admission: Record) -> Call:
    return Call(
        number=asked["call"],
        family=Family(asked["data"]["family"]),
        started_us=asked["atUs"],
        request=_bytes(asked),
        model=admission["model"],
        purpose=Purpose(admission["purpose"]),
    )


def _add(call: Call, record: Record) -> None:
    kind, data = record["kind"], record["data"]
    if kind == Kind.HEAD:
        call.status = data["status"]
    elif kind == Kind.BODY:
        raw = _bytes(record)
        call.answer_omitted |= raw is None
        call.answer += raw or b""
    elif kind in _ENDS:
        call.ended_us, call.settled, call.end = record["atUs"], kind == Kind.SETTLE, data


def calls_of(records: Iterable[Record]) -> Calls:
    """Read the records of one transcript, finished or not; a request that was not admitted was never sent."""
    asked: dict[int, Record] = {}
    made: dict[int, Call] = {}
    denied: list[Denied] = []
    for record in records:
        number, data = record["call"], record["data"]
        if record["kind"] == Kind.REQUEST:
            asked[number] = record
        elif record["kind"] == Kind.ADMIT and number in asked:
            made[number] = _admitted(asked.pop(number), data)
        elif record["kind"] == Kind.DENY:
            denied.append(Denied(number, record["atUs"], data["code"], data["message"]))
        elif number in made:
            _add(made[number], record)
    return Calls(tuple(made.values()), tuple(denied))
