"""Bytes in pieces of any size into lines of bounded length: pure."""

from __future__ import annotations

from typing import Final

LINE_LIMIT_BYTES: Final = 4 << 20


class LineTooLongError(ValueError):
    """More than `LINE_LIMIT_BYTES` came without an end of line."""


class LineBuffer:
    """Holds back what is not a whole line yet, and never more than one line may have."""

    def __init__(self, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` ends, without their ends and without blank ones.

        Raises `LineTooLongError`, and then nothing that is fed any more is of use.
        """
        *whole, rest = data.split(b"\n")
        lines = []
        for piece in whole:
            self._add(piece)
            lines.append(bytes(self._rest).strip(b"\r\n\t "))
            self._rest.clear()
        self._add(rest)
        return [line for line in lines if line]

    def _add(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > self._limit:
            raise LineTooLongError(f"a line of more than {self._limit} bytes")
        self._rest += piece
