"""The one error root of the orchestrator (CLI-4 exit codes, CLI-9 wording)."""

from __future__ import annotations

from typing import ClassVar


class AssizeError(Exception):
    """Base of every expected failure.

    `message` says what happened and to which object, `hint` what to do next. `code` is stable and
    machine readable; `exit_code` follows the one table of the CLI (CLI-4).
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AssizeError):
    """The input cannot be used as it stands; nothing was changed."""

    code = "usage"
    exit_code = 2


class NotFoundError(UsageError):
    """No object has the given name or id prefix, or several share it."""

    code = "not-found"


class HostError(AssizeError):
    """Something that this machine lacks (a Docker engine, an image); the hint says how to mend it."""

    code = "environment"
    exit_code = 4
