"""The loop of the reference agent: ask the model, run its commands, tell it what they gave.

It runs in the worker's process: model calls go over the attempt's relay socket like any agent's, commands
through a callback into the sandbox, so that a task's image needs nothing but a shell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from workers.adapters.shell.asking import GivenUpError, ask
from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.calls import Command, Turn
from workers.adapters.shell.conversation import Opening
from workers.adapters.shell.ending import ShellEnd, Why
from workers.adapters.shell.errors import DeadlinePassedError, StoppedError
from workers.adapters.shell.families import begin
from workers.adapters.shell.journal import Journal, Ran
from workers.adapters.shell.texts import COMMAND_LIMIT_S, CommandResult, shown, system_prompt
from workers.adapters.shell.transport import Link, RelayClient
from workers.relay.wire.family import Family

__all__ = ["CommandResult", "Run", "ShellEnd", "ShellTask", "Why", "drive"]

Run = Callable[[str, float], CommandResult]
"""Runs a command line for at most so many seconds, in a fresh shell in the sandbox."""


@dataclass(frozen=True)
class ShellTask:
    """One attempt. `deadline` in seconds of the monotonic clock; `socket` and `token` are its lane's, for an
    agent that is asked over a link of its own there is none.

    `max_output_tokens` bounds one answer of the model, None leaves that to the relay. `workdir` is only
    named to the model: the callback is what starts shells there.
    """

    instruction: str
    model: str
    family: Family
    socket: Path | None
    token: str = field(repr=False)
    deadline: float
    max_output_tokens: int | None
    workdir: str


def drive(
    task: ShellTask,
    run: Run,
    stop: Callable[[], bool],
    *,
    link: Link | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ShellEnd:
    """Work on the task until the model is done or something ends it; see `Why`.

    `stop` is looked at before every step and at least every 0.2 s while waiting for the model; `run` sees
    to it for the time of a command. Raises `UnspokenFamilyError`, and what `run` raises goes through.
    """
    bounds = Bounds(task.deadline, stop, now, sleep)
    return _Drive(task, run, bounds, link or _relay(task)).to_the_end()


def _relay(task: ShellTask) -> Link:
    if task.socket is None:
        raise ValueError("neither a lane nor a link to ask over")
    return RelayClient(task.socket)


class _Drive:
    """The state of one run."""

    def __init__(self, task: ShellTask, run: Run, bounds: Bounds, link: Link) -> None:
        opening = Opening(task.model, system_prompt(task.workdir), task.instruction, task.max_output_tokens)
        self._conversation = begin(task.family, opening)
        self._headers = self._conversation.headers(task.token)
        self._run = run
        self._bounds = bounds
        self._link = link
        self._journal = Journal()
        self._turns = 0
        self._commands = 0

    def to_the_end(self) -> ShellEnd:
        try:
            why, detail = self._until_finished()
        except GivenUpError as error:
            why, detail = error.why, error.detail
        except DeadlinePassedError as error:
            why, detail = Why.DEADLINE, str(error)
        except StoppedError as error:
            why, detail = Why.STOPPED, str(error)
        return ShellEnd(why, self._turns, self._commands, detail, self._journal.entries())

    def _until_finished(self) -> tuple[Why, str]:
        talk = self._conversation
        while True:
            turn = talk.take(ask(self._link, talk.path, self._headers, talk.request(), self._bounds))
            self._turns += 1
            ran: list[Ran] = []
            try:
                outputs = [(command, self._output(command, ran)) for command in turn.commands]
            finally:
                self._journal.add(self._turns, turn, ran)
            if turn.finished:
                return _ended(turn)
            talk.results(outputs)

    def _output(self, command: Command, ran: list[Ran]) -> str:
        """Run one command; its text for the model."""
        self._bounds.check()
        limit_s = min(COMMAND_LIMIT_S, self._bounds.left_s())
        result = self._run(command.text, limit_s)
        self._commands += 1
        ran.append(Ran(command, result))
        return shown(result, limit_s)


def _ended(turn: Turn) -> tuple[Why, str]:
    if turn.cut:
        return Why.LENGTH, "the model's last answer was cut at the output limit"
    return Why.FINISHED, f"the model answered without a command ({turn.finish or 'no finish reason'})"
