"""Usage in OpenAI's counts, and in its chat completions and embeddings, which many providers copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.reading import Counted, NotBelievedError, count, name_of, needed, section, tier_doubts
from workers.relay.wire.sse import Event
from workers.relay.wire.tally import Tally

XAI: Final = ("x-ai", "xai")
"""The provider that leaves reasoning out of `completion_tokens` in some answers and not in others."""

_LIST_PRICE_TIERS: Final = frozenset({"default", "auto", "standard", "on_demand"})
"""Tiers at the list price; the last two are what compatible providers call it."""


@dataclass(frozen=True)
class Names:
    """What a format calls its two sums; the details of each are named after it."""

    prompt: str
    completion: str

    @property
    def prompt_details(self) -> str:
        """The field of the parts of the prompt."""
        return f"{self.prompt}_details"

    @property
    def completion_details(self) -> str:
        """The field of the parts of the output."""
        return f"{self.completion}_details"


_CHAT: Final = Names("prompt_tokens", "completion_tokens")


def _output(
    prompt: int, completion: int, reasoning: int, total: int | None, provider: str
) -> tuple[int, bool]:
    """All output tokens, and whether that is a guess: the total decides whether reasoning is inside."""
    together = completion + reasoning
    if total is None:
        if provider in XAI and reasoning:
            return together, True
        return (together if reasoning > completion else completion), False
    if total == prompt + completion and reasoning <= completion:
        return completion, False
    if total == prompt + together:
        return together, False
    raise NotBelievedError("total_mismatch")


def read_counts(
    usage: Mapping[str, Any], names: Names, provider: str, cache_ttls: frozenset[str]
) -> tuple[Buckets, list[str]]:
    """Buckets and doubts. Cached, written and audio tokens are parts of the prompt, never added to it.

    Raises `NotBelievedError` for counts that contradict each other.
    """
    prompt, completion = needed(usage, names.prompt), needed(usage, names.completion)
    read, made = section(usage, names.prompt_details), section(usage, names.completion_details)
    cached = count(read, "cached_tokens")
    if cached is None:  # one compatible provider's own name for it
        cached = count(usage, "prompt_cache_hit_tokens") or 0
    written, audio_input = count(read, "cache_write_tokens") or 0, count(read, "audio_tokens") or 0
    reasoning, audio_output = count(made, "reasoning_tokens") or 0, count(made, "audio_tokens") or 0
    output, guessed = _output(prompt, completion, reasoning, count(usage, "total_tokens"), provider)
    if cached + written > prompt or audio_input > prompt or audio_output > output:
        raise NotBelievedError("part_over_whole")
    doubts = ["reasoning_unclear"] if guessed else []
    uncached = prompt - cached - written
    if audio_input > uncached:  # some of the audio is cached, and nothing says how much
        doubts.append("cached_audio")
        audio_input = uncached
    if written and len(cache_ttls) > 1:
        doubts.append("cache_ttl_unclear")
    one_hour = "1h" in cache_ttls
    buckets = Buckets(
        input=uncached - audio_input,
        cache_read=cached,
        cache_write_5m=0 if one_hour else written,
        cache_write_1h=written if one_hour else 0,
        output=output - audio_output,
        audio_input=audio_input,
        audio_output=audio_output,
    )
    return buckets, doubts


class OpenAITally(Tally):
    """What the three formats of OpenAI share."""

    total_name: ClassVar[str | None] = "total_tokens"

    def __init__(self, provider: str, cache_ttls: frozenset[str]) -> None:
        super().__init__()
        self.provider = provider
        self.cache_ttls = cache_ttls
        self.tier: Any = None

    def note_head(self, item: dict[str, Any]) -> None:
        """Model and tier, which stand in every object of an answer."""
        self.model = self.model or name_of(item.get("model"))
        tier = item.get("service_tier")
        self.tier = self.tier if tier is None else tier

    def doubts(self) -> tuple[str, ...]:
        """A flag when the answer was not served at the list price."""
        return tier_doubts((self.tier,), _LIST_PRICE_TIERS)


def _always_null(data: str, key: str, null: str, spaced_null: str) -> bool:
    found = data.count(key)
    return not found or found == data.count(null) + data.count(spaced_null)


_USAGE: Final = ('"usage"', '"usage":null', '"usage": null')
_FINISH: Final = ('"finish_reason"', '"finish_reason":null', '"finish_reason": null')
_ERROR: Final = ('"error"', '"error":null', '"error": null')


def _plain_delta(data: str) -> bool:
    """Whether a chat chunk carries neither usage, nor an end, nor an error.

    A quote inside a JSON string is escaped, so that text of the model can cause a parse, never hide a field.
    """
    return _always_null(data, *_USAGE) and _always_null(data, *_FINISH) and _always_null(data, *_ERROR)


class ChatTally(OpenAITally):
    """Chat completions: usage in the answer, in a last chunk without choices, or in any other chunk."""

    def __init__(self, provider: str, cache_ttls: frozenset[str]) -> None:
        super().__init__(provider, cache_ttls)
        self._running: set[Any] = set()
        self._stale = False

    def skim(self, event: Event) -> bool:
        data = event.data
        if data is None:
            return True
        if self.usage is None and self.model is not None and event.name is None and _plain_delta(data):
            self.content = True
            return True
        return False

    def done(self) -> None:
        super().done()
        self.ended = True

    def take(self, item: dict[str, Any], name: str | None) -> None:
        if name == "error" or item.get("error") is not None:
            self.note_error()
        self.note_head(item)
        choices, report = item.get("choices"), item.get("usage")
        found = choices if isinstance(choices, list) else []
        more = [self._take_choice(choice) for choice in found if isinstance(choice, dict)]
        finished = self.finish is not None and not self._running
        if isinstance(report, dict) and report:
            self.add_usage(report)
            self._stale = False
            self.final = choices == [] or finished
        elif any(more) and self.usage is not None:
            self._stale, self.final = True, False
        self.ended = self.saw_done or finished or self.final

    def _take_choice(self, choice: dict[str, Any]) -> bool:
        """Notes an end; whether the choice brings more of the answer."""
        index, finish = choice.get("index"), name_of(choice.get("finish_reason"))
        index = index if type(index) is int else 0
        if finish is None:
            self._running.add(index)
        else:
            self._running.discard(index)
            self.finish = finish
            if finish == "error":
                self.note_error()
        parts = [part for key in ("delta", "message") if isinstance(part := choice.get(key), dict)]
        more = any(value for part in parts for key, value in part.items() if key != "role")
        self.content = self.content or more
        return more

    def settled(self, *, clean: bool) -> bool:
        return not self._stale and (self.final or (clean and self.ended))

    def counted(self) -> Counted:
        buckets, doubts = read_counts(self.usage or {}, _CHAT, self.provider, self.cache_ttls)
        return Counted(buckets, (*doubts, *self.doubts()))


class EmbeddingsTally(OpenAITally):
    """Embeddings: a prompt and nothing else."""

    def skim(self, event: Event) -> bool:
        return event.data is None

    def take(self, item: dict[str, Any], name: str | None) -> None:
        if name == "error" or item.get("error") is not None:
            self.note_error()
        self.note_head(item)
        self.content = self.content or bool(item.get("data"))
        report = item.get("usage")
        if isinstance(report, dict) and report:
            self.add_usage(report)

    def counted(self) -> Counted:
        usage = self.usage or {}
        prompt, total = needed(usage, "prompt_tokens"), count(usage, "total_tokens")
        if (total is not None and total != prompt) or count(usage, "completion_tokens"):
            raise NotBelievedError("total_mismatch")
        return Counted(Buckets(input=prompt), self.doubts())
