"""Usage of Anthropic Messages: input tokens exclude the cache, and every report is a running total."""

from __future__ import annotations

from typing import Any, Final

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.reading import Counted, NotBelievedError, count, name_of, needed, section, tier_doubts
from workers.relay.wire.sse import Event
from workers.relay.wire.tally import Tally

_LIST_PRICE: Final = frozenset({"standard", "default", "global", "not_available"})
_SKIMMED: Final = frozenset({"content_block_start", "content_block_delta", "content_block_stop", "ping"})
_WRITTEN: Final = "cache_creation_input_tokens"
_SPLIT: Final = "cache_creation"
_REQUESTS: Final = "_requests"


class AnthropicTally(Tally):
    """Messages: usage in the answer, or begun in `message_start` and completed by `message_delta`."""

    def __init__(self, cache_ttls: frozenset[str]) -> None:
        super().__init__()
        self.cache_ttls = cache_ttls

    def skim(self, event: Event) -> bool:
        if event.data is None:
            return True
        if event.name not in _SKIMMED or '"usage"' in event.data:
            return False
        if event.name != "ping":
            self._more()
        return True

    def take(self, item: dict[str, Any], name: str | None) -> None:
        kind = item.get("type")
        if "error" in (name, kind) or item.get("error") is not None:
            self.note_error()
        elif kind == "message_start" and isinstance(item.get("message"), dict):
            self._take_message(item["message"])
        elif kind == "message_delta":
            self._take_stop(item.get("delta"))
            self._take_usage(item.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif isinstance(kind, str) and kind.startswith("content_block_"):
            self._more()

    def take_whole(self, item: dict[str, Any]) -> None:
        if item.get("type") == "error" or item.get("error") is not None:
            self.note_error()
        self._take_message(item)
        self.ended = True
        self.final = self.usage is not None

    def add_usage(self, report: dict[str, Any]) -> None:
        """A new sum of cache writes without a split of its own outdates the split of an earlier report."""
        newer, known = report.get(_WRITTEN), self.usage or {}
        if report.get(_SPLIT) is None and newer is not None and newer != known.get(_WRITTEN, newer):
            self.usage = {name: value for name, value in known.items() if name != _SPLIT}
        super().add_usage(report)

    def _more(self) -> None:
        """More of the answer: usage reported before does not cover it."""
        self.content = True
        self.final = False

    def _take_message(self, message: dict[str, Any]) -> None:
        self.model = self.model or name_of(message.get("model"))
        self.content = self.content or bool(message.get("content"))
        self._take_stop(message)
        self._take_usage(message.get("usage"))

    def _take_stop(self, holder: Any) -> None:
        finish = name_of(holder.get("stop_reason")) if isinstance(holder, dict) else None
        if finish is not None:
            self.finish = finish
            self.ended = True

    def _take_usage(self, report: Any) -> None:
        if isinstance(report, dict) and report:
            self.add_usage(report)
            self.final = self.finish is not None and report.get("output_tokens") is not None

    def counted(self) -> Counted:
        usage = self.usage or {}
        five, one, doubts = self._writes(usage)
        buckets = Buckets(
            input=needed(usage, "input_tokens"),
            cache_read=count(usage, "cache_read_input_tokens") or 0,
            cache_write_5m=five,
            cache_write_1h=one,
            output=needed(usage, "output_tokens"),
            calls=_calls(usage),
        )
        rates = (usage.get("service_tier"), usage.get("inference_geo"), usage.get("speed"))
        return Counted(buckets, (*doubts, *_hidden_rounds(usage), *tier_doubts(rates, _LIST_PRICE)))

    def _writes(self, usage: dict[str, Any]) -> tuple[int, int, tuple[str, ...]]:
        """Cache writes for 5 minutes and for 1 hour, and a doubt when nothing tells them apart."""
        written, split = count(usage, _WRITTEN), section(usage, _SPLIT)
        five = count(split, "ephemeral_5m_input_tokens")
        one = count(split, "ephemeral_1h_input_tokens")
        if five is not None or one is not None:
            parts = (five or 0, one or 0)
            if written is not None and sum(parts) != written:
                raise NotBelievedError("cache_split_mismatch")
            return *parts, ()
        if "1h" not in self.cache_ttls:
            return written or 0, 0, ()
        mixed = len(self.cache_ttls) > 1 and written
        return 0, written or 0, ("cache_ttl_unclear",) if mixed else ()


def _calls(usage: dict[str, Any]) -> dict[str, int]:
    """Provider-run calls by kind: `web_search_requests` counts `web_search`."""
    used = section(usage, "server_tool_use")
    counts = {name: count(used, name) for name in sorted(used) if name.endswith(_REQUESTS)}
    return {name.removesuffix(_REQUESTS): calls for name, calls in counts.items() if calls}


def _hidden_rounds(usage: dict[str, Any]) -> tuple[str, ...]:
    """Rounds such as a compaction are billed, and left out of the sums beside them."""
    rounds = usage.get("iterations")
    for entry in rounds if isinstance(rounds, list) else ():
        if not isinstance(entry, dict) or entry.get("type") != "message":
            return ("hidden_rounds",)
    return ()
