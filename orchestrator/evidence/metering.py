"""The metering ledger of an attempt: one line per model call, derived from the relay's transcript; pure.

A worker writes the lines, the signer derives them again from the transcript and compares, and certifies
their sums. So a figure in a certificate follows from the requests and answers that anybody can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator import canonical
from orchestrator.evidence.transcript import Chain, Kind, TranscriptError

FILE_NAME: Final = "relay/ledger.jsonl"
TRANSCRIPT_FILE: Final = "relay/transcript.jsonl"
EXACT: Final = "exact"
_CACHED: Final = ("cache_read",)
_INPUT: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "audio_input")
_OUTPUT: Final = ("output", "audio_output")
FIGURES: Final = (
    "inputTokens",
    "cachedInputTokens",
    "outputTokens",
    "costNusd",
    "standardCostNusd",
    "paidToolCallsNusd",
)


@dataclass(frozen=True)
class Prices:
    """The price sheet that a transcript names in its first record; `date` is YYYY-MM-DD."""

    id: str
    date: str
    digest: str


@dataclass(frozen=True)
class Totals:
    """Sums over a ledger. `figures` maps each of `FIGURES` to its sum; None when any call is not exact."""

    requests: int
    figures: Mapping[str, int] | None


def ledger_lines(chain: Chain) -> list[dict[str, Any]]:
    """One line per call that a provider took, in order of the calls; a call that never ended is unknown.

    Raises `TranscriptError` when records that must be there are not, or lack figures that they must have.
    """
    admitted: dict[int, Mapping[str, Any]] = {}
    ended: dict[int, Mapping[str, Any] | None] = {}
    last: dict[int, int] = {}
    for number, record in enumerate(chain.records, 1):
        call, data = record.get("call"), record.get("data")
        if not isinstance(call, int) or not isinstance(data, dict):
            raise TranscriptError(number, "is no record of a call")
        last[call] = number
        if record.get("kind") == Kind.ADMIT and data.get("purpose") == "generate":
            admitted[call] = data
        elif record.get("kind") == Kind.RELEASE:
            ended[call] = None
        elif record.get("kind") == Kind.SETTLE:
            if call not in admitted:
                raise TranscriptError(number, "settles a call that was never admitted")
            ended[call] = data
    return [
        _checked_line(last[call], call, terms, end)
        for call, terms in sorted(admitted.items())
        if (end := ended.get(call, {})) is not None
    ]


def _checked_line(number: int, call: int, terms: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _line(call, terms, end)
    except (KeyError, TypeError):
        raise TranscriptError(number, "ends a call without the figures of its kind") from None


def _line(call: int, terms: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {
        "call": call,
        "model": terms["model"],
        "provider": terms["provider"],
        "requests": 1,
        "completeness": end.get("completeness", "unknown"),
        "holdNusd": terms["holdNusd"],
        "bookedNusd": end.get("bookedNusd", terms["holdNusd"]),
    }
    if line["completeness"] != EXACT:
        return {**line, **dict.fromkeys(FIGURES)}
    usage, fees = end["usage"], end["feesNusd"]
    return {
        **line,
        "inputTokens": sum(usage[name] for name in _INPUT),
        "cachedInputTokens": sum(usage[name] for name in _CACHED),
        "outputTokens": sum(usage[name] for name in _OUTPUT),
        "costNusd": end["listNusd"] - fees,
        "standardCostNusd": end["standardNusd"] - fees,
        "paidToolCallsNusd": fees,
    }


def encode(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """The ledger file: canonical JSON lines."""
    return b"".join(canonical.encode(dict(line)) + b"\n" for line in lines)


def totals(lines: Sequence[Mapping[str, Any]]) -> Totals:
    """What the lines add up to; nothing is added up as long as one of them is not exact."""
    if any(line["completeness"] != EXACT for line in lines):
        return Totals(len(lines), None)
    return Totals(len(lines), {name: sum(line[name] for line in lines) for name in FIGURES})


def prices_of(chain: Chain) -> Prices:
    """The price sheet of a transcript; `TranscriptError` if its first record names none."""
    try:
        named = chain.records[0]["data"]["prices"]
        return Prices(str(named["id"]), str(named["date"]), str(named["digest"]))
    except (IndexError, KeyError, TypeError):
        raise TranscriptError(1, "does not open a lane") from None
