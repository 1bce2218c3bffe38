"""What the relay and its worker-side handle raise."""

from __future__ import annotations

from workers.errors import WorkerError
from workers.relay.wire.refusals import Refusal


class RelayError(WorkerError):
    """Base of the relay's own errors."""


class RefusedError(RelayError):
    """A request that is answered by the relay itself; `message` is for the agent."""

    def __init__(self, code: Refusal, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class RelayLostError(RelayError):
    """The relay process is gone or does not answer; what it metered is in its transcripts."""
