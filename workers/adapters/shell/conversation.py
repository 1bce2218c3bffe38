"""A conversation with a model, apart from the wire format: what a family must offer, and safe reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from workers.adapters.shell.calls import ARGUMENT, Command, Turn
from workers.adapters.shell.texts import COMMAND_DESCRIPTION

PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {ARGUMENT: {"type": "string", "description": COMMAND_DESCRIPTION}},
    "required": [ARGUMENT],
}
"""JSON schema of the tool's arguments, the same for every family."""

_FINISH_CHARS: Final = 100


@dataclass(frozen=True)
class Opening:
    """What a conversation starts from; `max_output_tokens` None: no limit is asked for."""

    model: str
    system: str
    instruction: str
    max_output_tokens: int | None


class Conversation(Protocol):
    """The history of one attempt in one wire format; pure, and nothing in an answer makes it raise.

    Per model call: `request`, `take`, and unless that turn is finished `results`.
    """

    @property
    def path(self) -> str:
        """The path of a model call at the relay."""

    def headers(self, token: str) -> Mapping[str, str]:
        """The family's headers, with `token` as the API key."""

    def request(self) -> dict[str, Any]:
        """The JSON body of the next call, not streaming."""

    def take(self, answer: Mapping[str, Any]) -> Turn:
        """Add the model's answer to the history, as received, and say what it asks for."""

    def results(self, outputs: Sequence[tuple[Command, str]]) -> None:
        """Add what the last turn's commands gave; its unusable calls are answered here as well."""


def listed(value: object) -> list[Any]:
    """`value` as a list: nothing for what is empty or absent, and one item for what is no list."""
    if isinstance(value, list):
        return value
    return [value] if value else []


def mapped(value: object) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def first(value: object) -> Mapping[str, Any]:
    """The first item of a list, if it is an object, else an empty one."""
    items = listed(value)
    return mapped(items[0]) if items else {}


def word(value: object) -> str | None:
    """A short text such as a finish reason; None for anything else."""
    return value[:_FINISH_CHARS] if isinstance(value, str) else None


def joined(parts: Sequence[object]) -> str:
    """The texts among content parts (`{"text": ...}`), in lines; other parts have none."""
    texts = [mapped(part).get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def addressable(items: Sequence[object]) -> list[dict[str, Any]]:
    """The items that a result can refer to: objects with an `id` of their own."""
    found: dict[str, dict[str, Any]] = {}
    for item in items:
        if isinstance(item, dict) and isinstance(known := item.get("id"), str) and known:
            found.setdefault(known, item)
    return list(found.values())
