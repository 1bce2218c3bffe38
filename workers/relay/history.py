"""A tighter bound for the input of a conversation that grows: last reported input plus the new bytes.

A byte holds at most one token, so the bytes of a request bound its input, but about four times too wide.
When everything but the list of messages is as in the last exactly metered call of the same model, and the
list only grew at its end, the provider's own count for the old part is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workers.relay.wire.family import Family
from workers.relay.wire.request import RequestFacts

_LISTS: Final[Mapping[Family, str]] = {
    Family.OPENAI_CHAT: "messages",
    Family.OPENAI_RESPONSES: "input",
    Family.ANTHROPIC: "messages",
    Family.GOOGLE: "contents",
}
_PER_MESSAGE: Final = 16
"""Tokens that a provider may add around one message."""


@dataclass(frozen=True)
class _Last:
    rest: Mapping[str, Any]
    messages: list[Any]
    input_tokens: int
    sent_bytes: int


def _rest(family: Family, body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != _LISTS.get(family)}


class History:
    """The last exactly metered call by family and model."""

    def __init__(self) -> None:
        self._last: dict[tuple[Family, str], _Last] = {}

    def bound(
        self, family: Family, model: str, body: Mapping[str, Any], facts: RequestFacts, sent_bytes: int
    ) -> int:
        """Tokens that the input cannot exceed; never more than `sent_bytes`."""
        last = self._last.get((family, model))
        if last is None or family not in _LISTS:
            return sent_bytes
        old, now = last.messages, facts.history
        if len(now) < len(old) or now[: len(old)] != old or _rest(family, body) != last.rest:
            return sent_bytes
        new = now[len(old) :]
        fresh = len(json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode())
        # Equal values can be spelled longer (1 and 1.000): whatever is longer counts in full.
        fresh = max(fresh, sent_bytes - last.sent_bytes)
        return min(sent_bytes, last.input_tokens + fresh + _PER_MESSAGE * len(new))

    def note(
        self,
        family: Family,
        model: str,
        body: Mapping[str, Any],
        facts: RequestFacts,
        *,
        input_tokens: int,
        sent_bytes: int,
    ) -> None:
        """Remember what the provider counted for a call of `sent_bytes` whose usage is exact."""
        if family in _LISTS:
            self._last[family, model] = _Last(_rest(family, body), facts.history, input_tokens, sent_bytes)
