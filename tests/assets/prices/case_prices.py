"""The fictional prices of the case files (nano-USD per token) as a price sheet of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.prices.sheet import PriceSheet

PER_MILLION: Final = 10**6
BUCKETS: Final = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


def sheet_of_cases(prices: Mapping[str, Any]) -> PriceSheet:
    """A sheet of `prices_nusd_per_token`, valid on every day from 2000 on."""
    entries = [_entry(model, price) for model, price in prices.items()]
    return PriceSheet.from_data(
        {"format": "assize.prices/1", "id": "cases", "date": "2026-11-30", "entries": entries}
    )


def _entry(model: str, price: Mapping[str, Any]) -> dict[str, Any]:
    tiers = [
        {"above_input_tokens": tier["above_input"], "rates": _rates(tier)} for tier in price.get("tiers", ())
    ]
    return {
        "provider": price["provider"],
        "ids": [model],
        "valid_from": "2000-01-01",
        "standard": _rates(price),
        "tiers": tiers,
        "per_call": price.get("per_call", {}),
        "max_output_tokens": price["max_output"],
        "source": "fictional",
        "retrieved": "2026-11-30",
    }


def _rates(price: Mapping[str, Any]) -> dict[str, int]:
    return {bucket: price[bucket] * PER_MILLION for bucket in BUCKETS if bucket in price}
