"""A relay transcript with its ledger, for certificates of metered attempts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from orchestrator.certificates import metered
from orchestrator.certificates.statements import Usage
from orchestrator.evidence import metering
from orchestrator.evidence.manifest import Role
from orchestrator.evidence.transcript import START
from orchestrator.prices.buckets import Buckets

PRICES = {"id": "list", "date": "2026-09-01", "digest": hashlib.sha256(b"prices").hexdigest()}
Files = dict[str, tuple[Role, bytes]]


def chained(records: list[dict[str, Any]]) -> bytes:
    """Records as the relay writes them: numbered, each with the hash of the line before."""
    head, lines = START, []
    for number, record in enumerate(records):
        line = json.dumps({"seq": number, "call": 0, "data": {}, **record, "prev": head}).encode()
        head = hashlib.sha256(line).hexdigest()
        lines.append(line + b"\n")
    return b"".join(lines)


def settled(
    read: int,
    cached: int,
    written: int,
    cost_nusd: int,
    *,
    standard_nusd: int | None = None,
    fees_nusd: int = 0,
) -> dict[str, Any]:
    """The end of an exactly known call; `read` includes `cached`, costs exclude the fees."""
    used = Buckets(input=read - cached, cache_read=cached, output=written)
    return {
        "completeness": "exact",
        "usage": {**used.tokens(), "calls": {}},
        "listNusd": cost_nusd + fees_nusd,
        "standardNusd": (cost_nusd if standard_nusd is None else standard_nusd) + fees_nusd,
        "feesNusd": fees_nusd,
        "bookedNusd": cost_nusd + fees_nusd,
    }


def transcript(*ends: Mapping[str, Any], attempt_id: str = "") -> bytes:
    """The agent's lane of an attempt, with one generation per end."""
    records: list[dict[str, Any]] = [{"kind": "open", "data": {"prices": PRICES}}]
    terms = {"model": "m", "provider": "p", "purpose": "generate", "holdNusd": 9_000_000}
    for call, end in enumerate(ends, 1):
        records.append({"kind": "admit", "call": call, "data": terms})
        records.append({"kind": "settle", "call": call, "data": dict(end)})
    lane = f"{attempt_id}.agent"
    return chained([{"lane": lane, **record} for record in (*records, {"kind": "close"})])


def files_of(raw: bytes) -> Files:
    """The two evidence files of a metered attempt."""
    return {
        metering.TRANSCRIPT_FILE: (Role.TRANSCRIPT, raw),
        metering.FILE_NAME: (Role.METERING_LEDGER, metered.ledger_of(raw)),
    }


def usage_of(raw: bytes) -> Usage:
    """The usage that a certificate must state."""
    return metered.usage_of(raw)
