"""Errors of the one who writes a log; what readers find has reason codes in `orchestrator.verification`."""

from __future__ import annotations

from orchestrator.errors import AssizeError


class LogError(AssizeError):
    """The log could not be written."""

    code = "log"


class LogBusyError(LogError):
    """Another process writes this log."""

    code = "log-busy"


class LogConflictError(LogError):
    """An entry under the same key, with other bytes, is in the log already."""

    code = "log-conflict"


class LogStateError(LogError):
    """What is on disk is not what was last signed; writing on would fork the log."""

    code = "log-state"
