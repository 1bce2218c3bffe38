"""Anthropic Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workers.adapters.shell.calls import TOOL, Command, Pending, Turn, pending, read_call
from workers.adapters.shell.conversation import PARAMETERS, Opening, addressable, joined, listed, word
from workers.adapters.shell.texts import TOOL_DESCRIPTION

_VERSION: Final = "2023-06-01"
_TOOLS: Final = [{"name": TOOL, "description": TOOL_DESCRIPTION, "input_schema": PARAMETERS}]
_CUT: Final = ("max_tokens", "model_context_window_exceeded")


class Anthropic:
    """A `Conversation` at `/v1/messages`.

    The family wants a maximum in every request; the relay puts one in where none is asked for.
    """

    path: Final = "/v1/messages"

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": opening.instruction}]
        self._pending = Pending()

    def headers(self, token: str) -> Mapping[str, str]:
        """The token as the key, and the version of the format."""
        return {"x-api-key": token, "anthropic-version": _VERSION}

    def request(self) -> dict[str, Any]:
        """The body of the next call."""
        body: dict[str, Any] = {
            "model": self._opening.model,
            "system": self._opening.system,
            "messages": list(self._messages),
            "tools": _TOOLS,
        }
        if self._opening.max_output_tokens is not None:
            body["max_tokens"] = self._opening.max_output_tokens
        return body

    def take(self, answer: Mapping[str, Any]) -> Turn:
        """The content blocks; thinking goes back with its signature, which the family requires."""
        content = answer.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = listed(content)
        uses = [block for block in blocks if _kind(block) == "tool_use"]
        kept = addressable(uses)
        finish = word(answer.get("stop_reason"))
        cut = finish in _CUT
        calls = [read_call(block["id"], block.get("name"), block.get("input")) for block in kept]
        self._pending = pending(calls, dropped=len(uses) - len(kept), cut=cut)
        sent = [_returned(block) for block in blocks if _goes_back(block, kept)]
        if sent:
            self._messages.append({"role": "assistant", "content": sent})
        text = joined([block for block in blocks if _kind(block) == "text"])
        return self._pending.turn(text, finish, cut)

    def results(self, outputs: Sequence[tuple[Command, str]]) -> None:
        """One user message: a result block per call first, then what could not be answered that way."""
        blocks: list[dict[str, Any]] = []
        for call, text in self._pending.answers(outputs):
            block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            blocks.append(block if call.command is not None else {**block, "is_error": True})
        if self._pending.note is not None:
            blocks.append({"type": "text", "text": self._pending.note})
        self._messages.append({"role": "user", "content": blocks})
        self._pending = Pending()


def _kind(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def _goes_back(block: object, calls: list[dict[str, Any]]) -> bool:
    """Whether the API takes the block back: it makes blank texts, and refuses them."""
    kind = _kind(block)
    if kind == "tool_use":
        return any(block is call for call in calls)
    if kind == "text":
        return bool(joined([block]).strip())
    return kind is not None


def _returned(block: dict[str, Any]) -> dict[str, Any]:
    """The block as received, but for a call whose input is no object: that would be refused."""
    if _kind(block) == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}}
    return block
