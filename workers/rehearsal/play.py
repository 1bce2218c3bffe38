"""From a script and a request to the reply: pure, but for the counter of faults already served."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from workers.rehearsal.asked import Asked
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import BYTES_PER_TOKEN, Finish, Reply, ToolCall, tokens
from workers.rehearsal.script import Fault, Script, Turn, Usage
from workers.rehearsal.shell import closing_command, in_text, named_call, shell_call

MAX_COUNTED: Final = 65_536
AFTERWORD: Final = "Done."


@dataclass(frozen=True)
class Move:
    """The turn due for a request; `last`: none follows; `repeated`: the script is over, this is an encore."""

    turn: Turn
    repeated: bool
    last: bool


def choose(script: Script, asked: Asked) -> Move:
    """The turn that `asked` has come to; beyond the last one, the last once more without its command.

    `CallError` when no conversation of the script matches and there is no default.
    """
    turns = script.turns_for(asked.task)
    if turns is None:
        raise CallError("no conversation of the script matches this task, and it has no default")
    index = min(asked.turns, len(turns) - 1)
    return Move(turns[index], repeated=asked.turns >= len(turns), last=index == len(turns) - 1)


def reply_to(move: Move, asked: Asked, created_s: int) -> Reply:
    """The reply of a turn; usage as scripted, else counted from the bytes of prompt and reply.

    A reply that the script does not price is cut to the request's output limit, as a provider does.
    """
    turn = move.turn
    command = None if move.repeated else turn.run
    if command is None and move.last and turn.finish == "stop":
        command = closing_command(asked.opening)
    text = turn.say or (AFTERWORD if command is None else "")
    call = None if command is None else shell_call(asked.tools, command)
    if turn.call is not None and not move.repeated:
        call = named_call(asked.tools, turn.call.tool, turn.call.arguments)
    elif command is not None and call is None:
        text = "\n\n".join(part for part in (text, in_text(asked.opening, command)) if part)
    finish = Finish(turn.finish) if call is None else Finish.TOOL
    if turn.usage is None:
        text, call, finish = _within(asked.output_limit, text, call, finish)
    usage = turn.usage or Usage(input=tokens(asked.prompt_bytes), output=tokens(_size(text, call)))
    return Reply(asked.seed, asked.model, created_s, text, call, finish, usage)


def _size(text: str, call: ToolCall | None) -> int:
    return len(text.encode()) + (0 if call is None else len(call.arguments_json.encode()))


def _within(
    limit: int | None, text: str, call: ToolCall | None, finish: Finish
) -> tuple[str, ToolCall | None, Finish]:
    if limit is None or tokens(_size(text, call)) <= limit:
        return text, call, finish
    return text.encode()[: limit * BYTES_PER_TOKEN].decode("utf-8", "ignore"), None, Finish.LENGTH


class FaultCounter:
    """How often each conversation met the fault of the turn it has come to.

    Keyed by the history's hash, since tries and retries share the server; of the keys met, the latest
    65,536 are kept.
    """

    def __init__(self) -> None:
        self._served: OrderedDict[str, int] = OrderedDict()

    def due(self, move: Move, asked: Asked) -> Fault | None:
        """The fault to serve now, counted as served; None when the turn is to be played."""
        fault = move.turn.fault
        if fault is None or move.repeated:
            return None
        served = self._served.pop(asked.seed, 0)
        more = served < (move.turn.times or 1)
        self._served[asked.seed] = served + 1 if more else served
        if len(self._served) > MAX_COUNTED:
            self._served.popitem(last=False)
        return fault if more else None
