"""Usage of OpenAI's Responses: inside the response object, whichever event ends the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.reading import Counted, name_of
from workers.relay.wire.sse import Event
from workers.relay.wire.usage_openai import Names, OpenAITally, read_counts

_TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_READ: Final = frozenset({*_TERMINAL, "response.created", "response.output_item.done", "error"})
_NAMES: Final = Names("input_tokens", "output_tokens")
_PROVIDER_ITEMS: Final[Mapping[str, str]] = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}


class ResponsesTally(OpenAITally):
    """Responses: usage inside the response object of the terminal event, whichever of the three it is."""

    def __init__(self, provider: str, cache_ttls: frozenset[str]) -> None:
        super().__init__(provider, cache_ttls)
        self._calls: dict[Any, str] = {}

    def skim(self, event: Event) -> bool:
        if event.data is None:
            return True
        if event.name is None or event.name in _READ or '"usage"' in event.data:
            return False
        self.content = True
        return True

    def take(self, item: dict[str, Any], name: str | None) -> None:
        kind = item.get("type") if isinstance(item.get("type"), str) else name
        response = item.get("response")
        if isinstance(response, dict):
            self._take_response(response, ended=kind in _TERMINAL)
        if "error" in (name, kind) or item.get("error") is not None:
            self.note_error()
        self._note_call(item.get("item"))
        self.content = self.content or (kind or "").endswith(".delta")

    def take_whole(self, item: dict[str, Any]) -> None:
        self._take_response(item, ended=True)

    def _take_response(self, response: dict[str, Any], *, ended: bool) -> None:
        self.note_head(response)
        report, output = response.get("usage"), response.get("output")
        if isinstance(report, dict) and report:
            self.add_usage(report)
            self.final = ended
        for item in output if isinstance(output, list) else ():
            self.content = True
            self._note_call(item)
        if ended:
            self.ended = True
            details = response.get("incomplete_details")
            reason = name_of(details.get("reason")) if isinstance(details, dict) else None
            self.finish = reason or name_of(response.get("status"))
        if response.get("error") is not None or response.get("status") == "failed":
            self.note_error()

    def _note_call(self, item: Any) -> None:
        """Counts a provider-run call once, although it stands in its own event and in the terminal one."""
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and kind in _PROVIDER_ITEMS:
            key = name_of(item.get("id")) or len(self._calls)
            self._calls[key] = _PROVIDER_ITEMS[kind]

    def counted(self) -> Counted:
        buckets, doubts = read_counts(self.usage or {}, _NAMES, self.provider, self.cache_ttls)
        kinds = list(self._calls.values())
        # The fee of such a call depends on what it did, which no usage field tells.
        doubts += [f"tool:{kind}" for kind in sorted(set(kinds))]
        calls = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
        return Counted(buckets + Buckets(calls=calls), (*doubts, *self.doubts()))
