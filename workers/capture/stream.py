"""A file-like reader over engine chunks with a byte cap."""

from __future__ import annotations

from collections.abc import Iterable

from workers.errors import CarryOverflowError


class ChunkReader:
    """`read(n)` over an iterable of byte chunks; raises `CarryOverflowError` beyond `cap_bytes`."""

    def __init__(self, chunks: Iterable[bytes], cap_bytes: int) -> None:
        self._chunks = iter(chunks)
        self._rest = b""
        self._cap = cap_bytes
        self.total_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; everything that is left for a negative size."""
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self.total_bytes += len(chunk)
            if self.total_bytes > self._cap:
                raise CarryOverflowError(f"more than {self._cap} bytes")
            self._rest += chunk
        cut = len(self._rest) if size < 0 else size
        out, self._rest = self._rest[:cut], self._rest[cut:]
        return out
