"""How a talk with an agent ended, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Why(StrEnum):
    """Why there is nothing more to say. None of these is a verdict: that is the grader's and the ledger's.

    finished: every prompt was answered. refused: the agent answered one of our requests with an error.
    version: it speaks another version of the protocol. lacking: the task has MCP servers that it cannot
    use. broken: what it wrote cannot be the protocol any more. unfinished: something else ended it first, as
    its own exit or a clock of ours.
    """

    FINISHED = "finished"
    REFUSED = "refused"
    VERSION = "version"
    LACKING = "lacking"
    BROKEN = "broken"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class AcpEnd:
    """The end of a talk. `turns`: prompts that were answered; `detail`: a sentence for people.

    `claims` is what the agent said about its turns and itself, `log` what was asked of us: both bounded,
    JSON-safe evidence (`workers.adapters.acp.journal`), neither of which decides anything.
    """

    why: Why
    turns: int
    detail: str
    claims: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Plain data for the evidence."""
        return {
            "why": self.why.value,
            "turns": self.turns,
            "detail": self.detail,
            "claims": self.claims,
            "log": self.log,
        }
