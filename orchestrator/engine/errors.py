"""How a run can end other than by finishing."""

from __future__ import annotations

from orchestrator.errors import AssizeError, HostError


class RunAbortedError(AssizeError):
    """The operator left at once (third interrupt); the same command resumes."""

    code = "interrupted"
    exit_code = 130


class HostUnfitError(HostError):
    """Many tries in a row ended by a fault of this host; nothing more was started."""

    code = "host-unfit"
