"""Errors of the one who writes a log; what readers find has reason codes in `orchestrator.verification`."""

from __future__ import annotations

from orchestrator.errors import AssizeError


class LogError(AssizeError):
    """The log could not be written."""

    code = "log"


class LogBusyError(LogError):
    """Another process writes this log."""

    code = "log-busy"


class LogClosedError(LogError):
    """This log ended; another one goes on from it."""

    code = "log-closed"


class LogConflictError(LogError):
    """An entry under the same key, with other bytes, is in the log already: `held`."""

    code = "log-conflict"

    def __init__(self, message: str, held: bytes) -> None:
        super().__init__(message, hint="the log has its own statement in this place; it is never replaced")
        self.held = held


class LogStateError(LogError):
    """What is on disk is not what was last signed; writing on would fork the log."""

    code = "log-state"
