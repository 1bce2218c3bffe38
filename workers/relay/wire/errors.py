"""Errors of the wire formats."""

from __future__ import annotations

from workers.errors import WorkerError
from workers.relay.wire.refusals import Refusal


class WireError(WorkerError):
    """Bytes that do not fit their wire format."""


class BadRequestError(WireError):
    """A request that the relay refuses for its form; `code` and `message` go into the answer."""

    def __init__(self, message: str, code: Refusal = Refusal.INVALID_REQUEST) -> None:
        super().__init__(f"{code.value}: {message}")
        self.code = code
        self.message = message
