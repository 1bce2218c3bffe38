"""How a run of the reference agent ended, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Why(StrEnum):
    """Why the loop ended. None of these is a verdict: that is the grader's and the ledger's.

    finished: the model answered without a command. length: the same, but its answer was cut at the output
    limit. refused: the relay or the provider refused a call (money, steps, policy, a request it does not
    take). provider: no usable answer, however often it was asked. deadline, stopped: from outside. relay:
    the relay (or an agent's own endpoint) could not be reached, or ended the try for trouble of the platform.
    lacking: the task has what this agent cannot use, so that nothing was asked.
    """

    FINISHED = "finished"
    LENGTH = "length"
    REFUSED = "refused"
    PROVIDER = "provider"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    RELAY = "relay"
    LACKING = "lacking"


@dataclass(frozen=True)
class ShellEnd:
    """The end of a run. `turns`: answers taken; `commands`: commands run; `detail`: a sentence for people.

    `log` is evidence in plain JSON-safe data, one entry per turn as far as it has room
    (`workers.adapters.shell.journal`).
    """

    why: Why
    turns: int
    commands: int
    detail: str
    log: tuple[dict[str, Any], ...]
