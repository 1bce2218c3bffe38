"""OpenAI chat completions, also of every provider that is compatible with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workers.adapters.shell.calls import TOOL, Call, Command, Pending, Turn, pending, read_call
from workers.adapters.shell.conversation import (
    PARAMETERS,
    Opening,
    addressable,
    first,
    joined,
    listed,
    mapped,
    word,
)
from workers.adapters.shell.texts import TOOL_DESCRIPTION

_TOOLS: Final = [
    {
        "type": "function",
        "function": {"name": TOOL, "description": TOOL_DESCRIPTION, "parameters": PARAMETERS},
    }
]


class OpenAiChat:
    """A `Conversation` at `/v1/chat/completions`."""

    path: Final = "/v1/chat/completions"

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": opening.system},
            {"role": "user", "content": opening.instruction},
        ]
        self._pending = Pending()

    def headers(self, token: str) -> Mapping[str, str]:
        """The token as a bearer."""
        return {"authorization": f"Bearer {token}"}

    def request(self) -> dict[str, Any]:
        """The body of the next call."""
        body: dict[str, Any] = {
            "model": self._opening.model,
            "messages": list(self._messages),
            "tools": _TOOLS,
        }
        if self._opening.max_output_tokens is not None:
            body["max_completion_tokens"] = self._opening.max_output_tokens
        return body

    def take(self, answer: Mapping[str, Any]) -> Turn:
        """The first choice's message; a second choice was not asked for."""
        choice = first(answer.get("choices"))
        message = mapped(choice.get("message"))
        offered = listed(message.get("tool_calls"))
        kept = addressable(offered)
        finish = word(choice.get("finish_reason"))
        cut = finish == "length"
        self._pending = pending([_call(item) for item in kept], dropped=len(offered) - len(kept), cut=cut)
        self._keep(message, kept)
        content = message.get("content")
        text = content if isinstance(content, str) else joined(listed(content))
        return self._pending.turn(text, finish, cut)

    def results(self, outputs: Sequence[tuple[Command, str]]) -> None:
        """One tool message per call, then what could not be answered that way."""
        for call, text in self._pending.answers(outputs):
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        if self._pending.note is not None:
            self._messages.append({"role": "user", "content": self._pending.note})
        self._pending = Pending()

    def _keep(self, message: Mapping[str, Any], calls: list[dict[str, Any]]) -> None:
        """The message goes back as it came, reasoning included, but for calls that nothing can refer to."""
        sent = {name: value for name, value in message.items() if name != "tool_calls"}
        if calls or sent.get("content"):
            if calls:
                sent["tool_calls"] = calls
            self._messages.append({**sent, "role": "assistant"})


def _call(item: Mapping[str, Any]) -> Call:
    function = mapped(item.get("function"))
    return read_call(item["id"], function.get("name"), function.get("arguments"))
