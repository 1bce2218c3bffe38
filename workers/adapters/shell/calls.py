"""Tool calls of a model's answer, whatever the family: which are commands, and what is wrong with others.

A model can return anything. A call that cannot be run is answered like one that was: with a result, which
says what was wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

TOOL: Final = "bash"
ARGUMENT: Final = "command"
MOST_COMMANDS: Final = 16
"""Commands that are run of one answer."""
COMMAND_LIMIT_BYTES: Final = 100 << 10
"""Below the 128 KiB that Linux allows for one argument: a longer one would fail at the engine, not here."""

_NAME_CHARS: Final = 100


@dataclass(frozen=True)
class Command:
    """A command line to run; `id` tells it from the others of the same answer."""

    id: str
    text: str


@dataclass(frozen=True)
class Turn:
    """What one answer of the model comes to.

    `finished`: there is nothing to answer, the conversation is over. `finish`: the family's own word for
    why the answer ended; `cut`: that was the output limit. `unusable`: what was wrong with other calls.
    """

    text: str
    commands: tuple[Command, ...]
    finished: bool
    finish: str | None
    cut: bool = False
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """One tool call that can be answered: with a command's output, or with its `problem`."""

    id: str
    name: str
    command: Command | None
    problem: str = ""


@dataclass(frozen=True)
class Pending:
    """The calls of the last answer in their order, and a note on what was no call that could be answered."""

    calls: tuple[Call, ...] = ()
    note: str | None = None

    def turn(self, text: str, finish: str | None, cut: bool) -> Turn:
        """The turn that these calls make."""
        unusable = [call.problem for call in self.calls if call.command is None]
        return Turn(
            text,
            tuple(call.command for call in self.calls if call.command is not None),
            finished=not self.calls and self.note is None,
            finish=finish,
            cut=cut,
            unusable=(*unusable, self.note) if self.note is not None else tuple(unusable),
        )

    def answers(self, outputs: Sequence[tuple[Command, str]]) -> Iterator[tuple[Call, str]]:
        """Every call with the text that answers it; providers refuse a history with an open call."""
        by_id = {command.id: text for command, text in outputs}
        for call in self.calls:
            yield call, call.problem if call.command is None else by_id.get(call.id, "not run")


def pending(calls: Sequence[Call], *, dropped: int, cut: bool) -> Pending:
    """The calls of an answer of which `dropped` more were too malformed to be answered one by one.

    The last call of an answer that was cut by the output limit is not run: it may be half a command.
    """
    kept = [call if n < MOST_COMMANDS else _denied(call, _TOO_MANY) for n, call in enumerate(calls)]
    if cut and kept:
        kept[-1] = _denied(kept[-1], _CUT)
    return Pending(tuple(kept), _DROPPED.format(count=dropped) if dropped else None)


_TOO_MANY: Final = f"not run: only the first {MOST_COMMANDS} commands of an answer are run"
_CUT: Final = "not run: your answer was cut at the output limit, so this command may not be whole"
_DROPPED: Final = f"{{count}} tool call(s) of your last answer could not be read. Use the tool {TOOL}."


def _denied(call: Call, problem: str) -> Call:
    return replace(call, command=None, problem=call.problem or problem)


def read_call(call_id: str, name: object, arguments: object) -> Call:
    """One call as the model made it; `arguments` is an object, or JSON text of one. Never raises."""
    known = name if isinstance(name, str) else ""
    if known != TOOL:
        problem = f"there is no tool {known[:_NAME_CHARS]!r}; the only tool is {TOOL}"
        return Call(call_id, known, None, problem)
    found = _parsed(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(found, Mapping):
        problem = f'the arguments are not a JSON object; expected {{"{ARGUMENT}": "..."}}'
        return Call(call_id, known, None, problem)
    text = found.get(ARGUMENT)
    if not isinstance(text, str):
        return Call(call_id, known, None, f"the argument {ARGUMENT} is missing or is not a string")
    problem = _problem(text)
    return Call(call_id, known, None if problem else Command(call_id, text), problem)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _problem(text: str) -> str:
    """Why a command line cannot be run as it stands; empty when it can."""
    if not text.strip():
        return "the command is empty"
    if "\0" in text:
        return "a command cannot hold a NUL character"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "the command is not valid Unicode"
    if size > COMMAND_LIMIT_BYTES:
        return f"the command has {size} bytes; at most {COMMAND_LIMIT_BYTES} can be run at once"
    return ""
