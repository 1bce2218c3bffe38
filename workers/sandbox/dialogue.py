"""What can be talked to over an exec's standard streams; who talks knows nothing of engines."""

from __future__ import annotations

from typing import Protocol


class Dialogue(Protocol):
    """One side of a talk with a command: it hears standard output, and writes to standard input.

    Called from one thread. Nothing in `heard` may raise, whatever the command wrote.
    """

    def heard(self, data: bytes) -> None:
        """Take a piece of the command's standard output."""

    def waiting(self) -> bytes:
        """The next bytes for its standard input; empty when there are none now."""

    def sent(self, count: int) -> None:
        """So many of the waiting bytes were taken by the engine."""

    def over(self) -> bool:
        """Whether the talk is over, so that nothing is waited for any more."""
