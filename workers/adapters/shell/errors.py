"""What the reference agent raises."""

from __future__ import annotations

from workers.errors import WorkerError


class ShellError(WorkerError):
    """Base of the reference agent's own errors."""


class UnspokenFamilyError(ShellError):
    """The reference agent does not speak this wire format."""


class LinkBrokenError(ShellError):
    """No whole answer came over the relay's socket: refused, broken off, or not HTTP."""


class DeadlinePassedError(ShellError):
    """The attempt's deadline came while something was waited for."""


class StoppedError(ShellError):
    """The attempt was cancelled while something was waited for."""
