"""A file-like reader over engine chunks with a byte cap."""

from __future__ import annotations

from collections.abc import Iterable

from workers.errors import CarryOverflowError


class ChunkReader:
    """`read(n)` over an iterable of byte chunks; raises `CarryOverflowError` beyond `cap_bytes`.

    The cost of reading is linear whatever the sizes of chunks and reads are.
    """

    def __init__(self, chunks: Iterable[bytes], cap_bytes: int) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._cap = cap_bytes
        self.total_bytes = 0

    def _next(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self.total_bytes += len(chunk)
        if self.total_bytes > self._cap:
            raise CarryOverflowError(f"more than {self._cap} bytes")
        self._rest = memoryview(chunk)
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; everything that is left for a negative size."""
        parts: list[memoryview] = []
        wanted = size
        while size < 0 or wanted > 0:
            if not self._rest and not self._next():
                break
            piece = self._rest if size < 0 else self._rest[:wanted]
            self._rest = self._rest[len(piece) :]
            wanted -= len(piece)
            parts.append(piece)
        return b"".join(parts)
