"""How much of the relay's memory one lane's requests may take: the relay serves all attempts of a host."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from workers.relay.errors import RefusedError
from workers.relay.wire.refusals import Refusal

LIMIT_BYTES: Final = 256 << 20
"""For all requests of a lane together, from their first byte to the end of their calls."""
ITEM_BYTES: Final = 64
"""What one element of a parsed list or object takes beside its text, about."""


class Intake:
    """The requests that a lane has in memory. `taken_bytes` is what they count for together."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes: Final = limit_bytes
        self.taken_bytes = 0

    def load(self) -> Load:
        """Room for one request, none taken yet."""
        return Load(self)


class Load:
    """What one request takes; as a context manager it is given back at the end, or with the call's task."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._bytes = 0
        self._lent = False

    def add(self, size_bytes: int) -> None:
        """Take more; `RefusedError` (`rate_limited`) while the lane's other requests leave no room."""
        intake = self._intake
        if intake.taken_bytes + size_bytes > intake.limit_bytes:
            raise RefusedError(
                Refusal.RATE_LIMITED,
                f"the open requests of this try are larger than {intake.limit_bytes} bytes together",
            )
        intake.taken_bytes += size_bytes
        self._bytes += size_bytes

    def keep_for(self, task: asyncio.Task[None]) -> None:
        """The request is in use until `task` is done."""
        self._lent = True
        task.add_done_callback(lambda _: self._free())

    def _free(self) -> None:
        self._intake.taken_bytes -= self._bytes
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._lent:
            self._free()
