"""Reason codes of log verification, and the errors of the one who writes a log."""

from __future__ import annotations

from typing import Final

from orchestrator.certificates.errors import (
    EXIT_INVALID,
    EXIT_OK,
    EXIT_UNDECIDED,
    EXIT_UNREADABLE,
    Part,
    ReasonRule,
)
from orchestrator.errors import AssizeError

_LOGGED: Final = "logged"
_WITNESSED: Final = "witnessed"

LOG_REASONS: Final[dict[str, ReasonRule]] = {
    "witness-policy": ReasonRule(Part.AUTHENTIC, EXIT_UNREADABLE, "input"),
    "proof-form": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "checkpoint-form": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "checkpoint-unsigned": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "origin": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "inclusion": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "consistency": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "rollback": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "split-view": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "consistency-missing": ReasonRule(Part.AUTHENTIC, EXIT_UNDECIDED, _LOGGED),
    "log-tile": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "log-root": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "entry-form": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _LOGGED),
    "log-missing": ReasonRule(Part.COMPLETE, EXIT_UNDECIDED, _LOGGED),
    "cosignature": ReasonRule(Part.AUTHENTIC, EXIT_INVALID, _WITNESSED),
    "quorum": ReasonRule(Part.COMPLETE, EXIT_UNDECIDED, _WITNESSED),
    "not-witnessed": ReasonRule(Part.NOTE, EXIT_OK, _WITNESSED),
}
"""What every reason code of this package means, in the terms of `orchestrator.certificates.errors.REASONS`.

Two entries with one key are `double`, which that table has already.
"""


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
