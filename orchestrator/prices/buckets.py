"""What one model call used, in disjoint buckets (reference/relay.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Buckets:
    """Token counts that never overlap: `input` is uncached input, `output` holds reasoning as well.

    `audio_input` and `audio_output` are priced at their own rates. `calls` counts provider-run tool calls
    by kind (`web_search`), each with a fee of its own.
    """

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    audio_input: int = 0
    audio_output: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def input_total(self) -> int:
        """Every input token, cached or not: what long-context tiers are decided by."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h + self.audio_input

    def tokens(self) -> dict[str, int]:
        """Token counts by bucket name."""
        return {
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write_5m": self.cache_write_5m,
            "cache_write_1h": self.cache_write_1h,
            "output": self.output,
            "audio_input": self.audio_input,
            "audio_output": self.audio_output,
        }

    def __add__(self, other: Buckets) -> Buckets:
        kinds = {*self.calls, *other.calls}
        return Buckets(
            input=self.input + other.input,
            cache_read=self.cache_read + other.cache_read,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            output=self.output + other.output,
            audio_input=self.audio_input + other.audio_input,
            audio_output=self.audio_output + other.audio_output,
            calls={kind: self.calls.get(kind, 0) + other.calls.get(kind, 0) for kind in kinds},
        )
