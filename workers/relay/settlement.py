"""What an answered call is booked at: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.cost import cost
from orchestrator.prices.errors import UnpricedError
from workers.relay.admission import Admission
from workers.relay.wire.usage import Completeness, Reading


@dataclass(frozen=True)
class Settlement:
    """A reading with its price. Without an exact usage there is no cost: the hold stays booked.

    `list_nusd` and `standard_nusd` include `fees_nusd`, the fees of provider-run tool calls.
    """

    reading: Reading
    completeness: Completeness
    flags: tuple[str, ...]
    list_nusd: int | None = None
    standard_nusd: int | None = None
    fees_nusd: int | None = None

    def as_data(self, booked_nusd: int, problem: str) -> dict[str, Any]:
        """The record of the transcript."""
        reading, used = self.reading, self.reading.buckets
        return {
            "completeness": self.completeness.value,
            "usage": None if used is None else {**used.tokens(), "calls": dict(used.calls)},
            "listNusd": self.list_nusd,
            "standardNusd": self.standard_nusd,
            "feesNusd": self.fees_nusd,
            "bookedNusd": booked_nusd,
            "finish": reading.finish,
            "servedModel": reading.served_model,
            "fault": "provider" if reading.provider_fault else None,
            "flags": list(self.flags),
            "problem": problem,
        }


def settlement(reading: Reading, admitted: Admission) -> Settlement:
    """Price a reading; a usage that the sheet cannot price is bounded by its hold, not exact."""
    used = reading.buckets
    if used is None or reading.completeness is not Completeness.EXACT:
        return Settlement(reading, reading.completeness, reading.flags)
    try:
        whole = cost(admitted.price, used, admitted.at)
        fees = cost(admitted.price, Buckets(calls=used.calls), admitted.at).list_nusd if used.calls else 0
    except UnpricedError:
        return Settlement(reading, Completeness.BOUNDED, (*reading.flags, "unpriced_dimension"))
    flags = reading.flags
    if admitted.held is not None and whole.list_nusd > admitted.held.nusd:
        flags = (*flags, "above_hold")
    return Settlement(reading, Completeness.EXACT, flags, whole.list_nusd, whole.standard_nusd, fees)
