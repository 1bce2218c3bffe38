"""An answer while its pieces come in."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.relay.trajectory.neutral import Answer, ToolCall
from workers.relay.trajectory.texts import repaired


@dataclass
class DraftCall:
    """A tool call in pieces; of `id` and `name` the first one given counts."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def add(self, ident: str, name: str, arguments: str) -> None:
        """Take in one piece; any part of it may be empty."""
        self.id = self.id or ident
        self.name = self.name or name
        self.arguments.append(arguments)


@dataclass
class Draft:
    """Collects the pieces of one answer; calls are kept by a key that the wire format chooses."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[str, DraftCall] = field(default_factory=dict)
    finish: str = ""
    model: str = ""

    def call(self, key: str) -> DraftCall:
        """The call under this key, a new one the first time."""
        return self.calls.setdefault(key, DraftCall())

    def answer(self, joint: str = "") -> Answer:
        """What has come so far; `joint` goes between two pieces of text."""
        calls = (
            ToolCall(repaired(call.id), repaired(call.name), repaired("".join(call.arguments)))
            for call in self.calls.values()
        )
        return Answer(
            text=repaired(joint.join(piece for piece in self.text if piece)),
            reasoning=repaired(joint.join(piece for piece in self.reasoning if piece)) or None,
            tool_calls=tuple(calls),
            finish=repaired(self.finish) or None,
            model=repaired(self.model) or None,
        )
