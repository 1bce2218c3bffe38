"""Gemini generateContent."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from workers.adapters.shell.calls import TOOL, Command, Pending, Turn, pending, read_call
from workers.adapters.shell.conversation import PARAMETERS, Opening, first, joined, listed, mapped, word
from workers.adapters.shell.texts import TOOL_DESCRIPTION

_TOOLS: Final = [
    {"functionDeclarations": [{"name": TOOL, "description": TOOL_DESCRIPTION, "parameters": PARAMETERS}]}
]
_BROKEN_CALL: Final = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
"""Finish reasons of an answer that was meant to be a call, and comes without one."""


class Google:
    """A `Conversation` at `/v1beta/models/MODEL:generateContent`.

    Calls have a name and often no id, so that results are told apart by their order.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": opening.instruction}]}]
        self._pending = Pending()
        self._ids: list[object] = []

    @property
    def path(self) -> str:
        """The path, which names the model."""
        return f"/v1beta/models/{urllib.parse.quote(self._opening.model, safe='')}:generateContent"

    def headers(self, token: str) -> Mapping[str, str]:
        """The token as the key."""
        return {"x-goog-api-key": token}

    def request(self) -> dict[str, Any]:
        """The body of the next call."""
        body: dict[str, Any] = {
            "systemInstruction": {"parts": [{"text": self._opening.system}]},
            "contents": list(self._contents),
            "tools": _TOOLS,
        }
        if self._opening.max_output_tokens is not None:
            body["generationConfig"] = {"maxOutputTokens": self._opening.max_output_tokens}
        return body

    def take(self, answer: Mapping[str, Any]) -> Turn:
        """The first candidate's parts; they go back with their thought signatures."""
        candidate = first(answer.get("candidates"))
        content = mapped(candidate.get("content"))
        parts = listed(content.get("parts"))
        offered = [part for part in parts if isinstance(part, dict) and "functionCall" in part]
        kept = [part for part in offered if isinstance(mapped(part["functionCall"]).get("name"), str)]
        finish = word(candidate.get("finishReason"))
        finish = finish or word(mapped(answer.get("promptFeedback")).get("blockReason"))
        cut = finish == "MAX_TOKENS"
        asked = [part["functionCall"] for part in kept]
        calls = [read_call(str(n), call["name"], call.get("args")) for n, call in enumerate(asked)]
        dropped = len(offered) - len(kept)
        if not offered and finish in _BROKEN_CALL:
            dropped = 1
        self._pending = pending(calls, dropped=dropped, cut=cut)
        self._ids = [call.get("id") for call in asked]
        sent = [part for part in parts if isinstance(part, dict) and _goes_back(part, kept)]
        if sent:
            self._contents.append({**content, "role": "model", "parts": sent})
        said = [part for part in parts if mapped(part).get("thought") is not True]
        return self._pending.turn(joined(said), finish, cut)

    def results(self, outputs: Sequence[tuple[Command, str]]) -> None:
        """One user content: a response part per call, then what could not be answered that way."""
        parts: list[dict[str, Any]] = []
        for (call, text), known in zip(self._pending.answers(outputs), self._ids, strict=True):
            key = "output" if call.command is not None else "error"
            response: dict[str, Any] = {"name": call.name, "response": {key: text}}
            parts.append({"functionResponse": response if known is None else {"id": known, **response}})
        if self._pending.note is not None:
            parts.append({"text": self._pending.note})
        self._contents.append({"role": "user", "parts": parts})
        self._pending, self._ids = Pending(), []


def _goes_back(part: dict[str, Any], calls: list[dict[str, Any]]) -> bool:
    return "functionCall" not in part or any(part is call for call in calls)
