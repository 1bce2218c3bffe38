"""What can be wrong with a rehearsal: the script, the place to listen at, a call, the child process."""

from __future__ import annotations

from workers.errors import WorkerError


class RehearsalError(WorkerError):
    """Base of everything the scripted provider raises on purpose."""


class ScriptError(RehearsalError):
    """A script cannot be used; the message names the file, the key, its value and what is wrong."""


class PlaceRefusedError(RehearsalError):
    """The scripted provider listens on loopback or on a Unix socket, and nowhere else."""


class NotReadyError(RehearsalError):
    """The child process ended, or kept silent, before it named its address."""


class CallError(RehearsalError):
    """A request that a real provider would refuse; `status` is the HTTP status of the refusal."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
