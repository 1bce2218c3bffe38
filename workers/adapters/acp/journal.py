"""The record of a talk: bounded, JSON-safe; what the agent wrote itself is kept whole as its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from workers.adapters.acp.messages import Request
from workers.adapters.acp.permission import Choice
from workers.adapters.shell.conversation import mapped, word
from workers.adapters.shell.texts import shortened

MOST_ENTRIES: Final = 200
ANSWER_LIMIT_BYTES: Final = 64 << 10
_TEXT_BYTES: Final = 200
_MOST_NAMES: Final = 64
_MAX_NUMBER: Final = 1 << 53


class Journal:
    """Collects what the agent asked and claimed."""

    def __init__(self) -> None:
        self._updates: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._choices: Counter[str] = Counter()
        self._permissions: list[dict[str, str]] = []
        self._stops: list[dict[str, Any]] = []
        self._agent: dict[str, str] = {}
        self._answer = ""

    def about(self, result: Mapping[str, Any]) -> None:
        """Who the agent says it is (`agentInfo` of its answer to initialize)."""
        known = mapped(result.get("agentInfo"))
        texts = {name: word(known.get(name)) for name in ("name", "version")}
        self._agent = {name: _short(text) for name, text in texts.items() if text is not None}

    def update(self, params: Mapping[str, Any]) -> None:
        """One `session/update`: its kind is counted, a piece of the agent's answer kept."""
        update = mapped(params.get("update"))
        kind = word(update.get("sessionUpdate")) or "(none)"
        _count(self._updates, kind)
        text = mapped(update.get("content")).get("text")
        if kind == "agent_message_chunk" and isinstance(text, str) and len(self._answer) < ANSWER_LIMIT_BYTES:
            self._answer += text[: ANSWER_LIMIT_BYTES - len(self._answer)]

    def permission(self, asked: Request, choice: Choice) -> None:
        """One request for permission, and what was chosen."""
        self._choices[choice.kind] += 1
        if len(self._permissions) < MOST_ENTRIES:
            title = word(mapped(asked.params.get("toolCall")).get("title")) or ""
            self._permissions.append({"tool": _short(title), "chosen": choice.kind})

    def refused(self, asked: Request) -> None:
        """A request that is not offered."""
        _count(self._refused, asked.method)

    def turn(self, result: Mapping[str, Any]) -> None:
        """An answered prompt: the agent's own reason and usage, claims both."""
        if len(self._stops) < MOST_ENTRIES:
            usage = {
                _key(name): number
                for name, number in list(mapped(result.get("usage")).items())[:_MOST_NAMES]
                if type(number) is int and 0 <= number < _MAX_NUMBER
            }
            self._stops.append({"stopReason": _short(word(result.get("stopReason")) or ""), "usage": usage})

    def claims(self) -> dict[str, Any]:
        """What the agent says of itself and its turns."""
        answer = shortened(self._answer, ANSWER_LIMIT_BYTES)
        return {"agent": self._agent, "turns": self._stops, "answer": answer}

    def log(self, strange: int) -> dict[str, Any]:
        """What was asked of us; `strange` counts lines that were no message."""
        return {
            "updates": dict(self._updates),
            "permissions": self._permissions,
            "permissionsByChoice": dict(self._choices),
            "refused": dict(self._refused),
            "strangeLines": strange,
        }


def _short(text: str) -> str:
    return shortened(text, _TEXT_BYTES)


def _key(text: str) -> str:
    """A name as keys of evidence are: in ASCII."""
    return _short(text).encode("ascii", "backslashreplace").decode()


def _count(counter: Counter[str], name: str) -> None:
    """Names are the agent's: beyond a number of them they are counted together."""
    known = _key(name)
    counter[known if known in counter or len(counter) < _MOST_NAMES else "(others)"] += 1
