"""Unpacks an answer that came packed although `identity` was asked for."""

from __future__ import annotations

import zlib
from typing import Final

from workers.relay.errors import RelayError

BODY_LIMIT_BYTES: Final = 256 << 20
_ANY_ZLIB: Final = 47  # gzip or zlib header, whichever is there


class UnpackError(RelayError):
    """The packed body is damaged, or larger than any answer may be."""


class Unpacker:
    """Decodes gzip and deflate piece by piece; for anything else it passes bytes on as they are."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        self.active: Final = name in ("gzip", "x-gzip", "deflate")
        self.unreadable: Final = not self.active and name not in ("", "identity")
        self._zlib = zlib.decompressobj(_ANY_ZLIB) if self.active else None
        self._seen = 0

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes; `UnpackError` if it cannot be decoded or grows beyond the limit."""
        if self._zlib is not None:
            try:
                data = self._zlib.decompress(data, BODY_LIMIT_BYTES)
            except zlib.error as error:
                raise UnpackError(f"the provider's packed answer is damaged: {error}") from None
            if self._zlib.unconsumed_tail:
                raise UnpackError("the provider's packed answer is too large")
        self._seen += len(data)
        if self._seen > BODY_LIMIT_BYTES:
            raise UnpackError("the provider's answer is too large")
        return data
