"""The reference agent's own record: bounded, JSON-safe, and only a companion of the relay's transcript."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from workers.adapters.shell.calls import MOST_COMMANDS, Command, Turn
from workers.adapters.shell.texts import CommandResult, shortened

MOST_ENTRIES: Final = 2000
TEXT_LIMIT_BYTES: Final = 8 << 10


@dataclass(frozen=True)
class Ran:
    """A command that was run, and what it did."""

    command: Command
    result: CommandResult


class Journal:
    """Collects one entry per turn; turns beyond `MOST_ENTRIES` are not kept."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def add(self, number: int, turn: Turn, ran: list[Ran]) -> None:
        """Note turn `number` (from 1) and the commands that were run of it."""
        if len(self._entries) < MOST_ENTRIES:
            self._entries.append(_entry(number, turn, ran))

    def entries(self) -> tuple[dict[str, Any], ...]:
        """The entries in order: text, finish, commands with exit code and output size, unusable calls."""
        return tuple(self._entries)


def _entry(number: int, turn: Turn, ran: list[Ran]) -> dict[str, Any]:
    return {
        "turn": number,
        "text": shortened(turn.text, TEXT_LIMIT_BYTES),
        "finish": None if turn.finish is None else shortened(turn.finish, TEXT_LIMIT_BYTES),
        "commands": [
            {
                "command": shortened(one.command.text, TEXT_LIMIT_BYTES),
                "exitCode": one.result.exit_code,
                "timedOut": one.result.timed_out,
                "outputBytes": len(one.result.output),
            }
            for one in ran
        ],
        "unusable": [shortened(problem, TEXT_LIMIT_BYTES) for problem in turn.unusable[:MOST_COMMANDS]],
    }
