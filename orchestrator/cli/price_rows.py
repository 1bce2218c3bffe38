"""Rows of the price commands: the same keys in tables and in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from orchestrator.cli.listing import Column
from orchestrator.cli.output import DASH
from orchestrator.prices.compare import Difference
from orchestrator.prices.entry import ModelPrice, Rates
from orchestrator.prices.importer import Skipped

_NUSD: Final = 10**9
SKIPPED_HEADERS: Final = ("provider", "model", "reason")
DIFFERENCE_HEADERS: Final = ("kind", "provider", "model", "from", "detail")


def usd(nusd_per_mtok: int | None) -> str:
    """A rate in USD per million tokens, exactly, a dash for none."""
    if nusd_per_mtok is None:
        return DASH
    return f"{(Decimal(nusd_per_mtok) / _NUSD).normalize():f}"


def _fees(per_call: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {usd(nusd)}" for kind, nusd in sorted(per_call.items())) or DASH


def _rate(name: str, bucket: str, *, default: bool = True) -> Column:
    return Column(name, usd, key=f"{bucket}_nusd_per_mtok", default=default)


COLUMNS: Final = (
    Column("provider"),
    Column("model"),
    Column("ids", lambda ids: " ".join(ids), default=False),
    Column("applies"),
    _rate("input", "input"),
    _rate("cached", "cache_read"),
    _rate("write-5m", "cache_write_5m", default=False),
    _rate("write-1h", "cache_write_1h", default=False),
    _rate("output", "output"),
    _rate("audio-in", "audio_input", default=False),
    _rate("audio-out", "audio_output", default=False),
    Column("per-call", _fees, key="per_call_nusd", default=False),
    Column("max-output", key="max_output_tokens", default=False),
    Column("from", key="valid_from"),
    Column("to", key="valid_to"),
    Column("reviewed", lambda yes: "yes" if yes else "NO"),
    Column("source", default=False),
)


def rows_of(entry: ModelPrice, *, every: bool) -> list[dict[str, Any]]:
    """The standard rates of an entry; with `every` also each tier and time of day."""
    if not every:
        return [_row(entry, _applies(entry), entry.standard)]
    tiers = [(f"above {tier.above_input_tokens} input tokens", tier.rates) for tier in entry.tiers]
    timed = [(f"{one.start}-{one.end} UTC", one.rates) for one in entry.windows]
    return [_row(entry, text, rates) for text, rates in (("standard", entry.standard), *tiers, *timed)]


def _applies(entry: ModelPrice) -> str:
    parts = ["standard"]
    if entry.tiers:
        parts.append(f"{len(entry.tiers)} tier" + "s" * (len(entry.tiers) > 1))
    if entry.windows:
        parts.append("times of day")
    return " + ".join(parts)


def _row(entry: ModelPrice, applies: str, rates: Rates) -> dict[str, Any]:
    return {
        "provider": entry.provider,
        "model": entry.ids[0],
        "ids": list(entry.ids),
        "applies": applies,
        **{f"{bucket}_nusd_per_mtok": rates.of(bucket) for bucket in Rates.model_fields},
        "per_call_nusd": dict(entry.per_call),
        "max_output_tokens": entry.max_output_tokens,
        "valid_from": entry.valid_from.isoformat(),
        "valid_to": None if entry.valid_to is None else entry.valid_to.isoformat(),
        "reviewed": entry.reviewed,
        "source": entry.source,
    }


def difference(one: Difference) -> dict[str, Any]:
    """One difference under the names of `DIFFERENCE_HEADERS`."""
    return {
        "kind": one.kind,
        "provider": one.provider,
        "model": one.model,
        "from": one.valid_from,
        "detail": one.detail,
    }


def skipped(one: Skipped) -> dict[str, Any]:
    """One thing that was left out, under the names of `SKIPPED_HEADERS`."""
    return {"provider": one.provider, "model": one.model, "reason": one.reason}


def summary(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a sheet is, for `facts`."""
    return [
        ("sheet", f"{data['sheet']} of {data['date']}"),
        ("digest", str(data["digest"])),
        ("entries", f"{data['entries']}, {data['reviewed']} reviewed"),
    ]
