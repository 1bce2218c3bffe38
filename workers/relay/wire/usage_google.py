"""Usage of Gemini: the prompt includes the cache, candidates exclude thoughts, reports are running totals."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.reading import Counted, NotBelievedError, count, name_of, needed, tier_doubts
from workers.relay.wire.sse import Event
from workers.relay.wire.tally import Tally

_LIST_PRICE: Final = frozenset(
    {
        *("default", "standard", "unspecified", "service_tier_unspecified"),
        *("on_demand", "traffic_type_unspecified"),
    }
)
_NOT_FINISHED: Final = "FINISH_REASON_UNSPECIFIED"


def _of_modality(usage: dict[str, Any], name: str, modality: str) -> int:
    """Tokens of one modality in a list of `{modality, tokenCount}`."""
    details = usage.get(name)
    if details is None:
        return 0
    if not isinstance(details, list) or not all(isinstance(entry, dict) for entry in details):
        raise NotBelievedError("bad_count")
    return sum(count(entry, "tokenCount") or 0 for entry in details if entry.get("modality") == modality)


class GoogleTally(Tally):
    """generateContent and its stream: `usageMetadata` in the answer or in most chunks."""

    total_name: ClassVar[str | None] = "totalTokenCount"

    def __init__(self) -> None:
        super().__init__()
        self._running: set[Any] = set()
        self._stale = False
        self._grounded = False

    def skim(self, event: Event) -> bool:
        return event.data is None

    def take(self, item: dict[str, Any], name: str | None) -> None:
        if name == "error" or item.get("error") is not None:
            self.note_error()
        self.model = self.model or name_of(item.get("modelVersion"))
        candidates, feedback = item.get("candidates"), item.get("promptFeedback")
        found = candidates if isinstance(candidates, list) else []
        more = [self._take_candidate(candidate) for candidate in found if isinstance(candidate, dict)]
        blocked = name_of(feedback.get("blockReason")) if isinstance(feedback, dict) else None
        self.finish = blocked or self.finish
        self.ended = self.finish is not None and not self._running
        report = item.get("usageMetadata")
        if isinstance(report, dict) and report:
            self.add_usage(report)
            self._stale = False
            self.final = self.ended
        elif any(more) and self.usage is not None:
            self._stale, self.final = True, False

    def _take_candidate(self, candidate: dict[str, Any]) -> bool:
        """Notes an end; whether the candidate brings more of the answer."""
        index, finish = candidate.get("index"), name_of(candidate.get("finishReason"))
        index = index if type(index) is int else 0
        if finish is None or finish == _NOT_FINISHED:
            self._running.add(index)
        else:
            self._running.discard(index)
            self.finish = finish
        grounding, content = candidate.get("groundingMetadata"), candidate.get("content")
        self._grounded = self._grounded or bool(grounding)
        more = bool(content.get("parts")) if isinstance(content, dict) else False
        self.content = self.content or more
        return more

    def settled(self, *, clean: bool) -> bool:
        return not self._stale and (self.final or (clean and self.ended))

    def counted(self) -> Counted:
        usage = self.usage or {}
        prompt = needed(usage, "promptTokenCount")
        cached = count(usage, "cachedContentTokenCount") or 0
        tools = count(usage, "toolUsePromptTokenCount") or 0
        output = (count(usage, "candidatesTokenCount") or 0) + (count(usage, "thoughtsTokenCount") or 0)
        total = count(usage, "totalTokenCount")
        if total is not None and total != prompt + tools + output:
            raise NotBelievedError("total_mismatch")
        audio_output = _of_modality(usage, "candidatesTokensDetails", "AUDIO")
        if cached > prompt or audio_output > output:
            raise NotBelievedError("part_over_whole")
        audio_input = _of_modality(usage, "promptTokensDetails", "AUDIO")
        audio_input += _of_modality(usage, "toolUsePromptTokensDetails", "AUDIO")
        if audio_input > prompt + tools:
            raise NotBelievedError("part_over_whole")
        uncached = prompt - cached + tools
        doubts = self._doubts(usage)
        if audio_input > uncached or _of_modality(usage, "cacheTokensDetails", "AUDIO"):
            doubts.append("cached_audio")
            audio_input = min(audio_input, uncached)
        buckets = Buckets(
            input=uncached - audio_input,
            cache_read=cached,
            output=output - audio_output,
            audio_input=audio_input,
            audio_output=audio_output,
        )
        return Counted(buckets, tuple(doubts))

    def _doubts(self, usage: dict[str, Any]) -> list[str]:
        """What makes the rate of some tokens, or a fee beside them, unknown."""
        doubts = ["tool:google_search"] if self._grounded else []
        if _of_modality(usage, "candidatesTokensDetails", "IMAGE"):
            doubts.append("modality:image")
        doubts.extend(tier_doubts((usage.get("serviceTier"), usage.get("trafficType")), _LIST_PRICE))
        return doubts
