"""Provider keys never leave the relay: scrubbed from bodies and headers before anything is kept or sent."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Iterable
from typing import Final

MARK: Final = b"[provider key]"
_LEAST_PREFIX: Final = 12
_SHORT_KEY: Final = 8


class Redactor:
    """Replaces every live key, its usual encodings and its long prefixes."""

    def __init__(self, keys: Iterable[str]) -> None:
        needles: set[bytes] = set()
        self._prefixes: list[tuple[bytes, bytes]] = []
        for key in keys:
            raw = key.encode()
            if len(raw) < _SHORT_KEY:
                continue  # a key this short would match ordinary text; no provider has one
            needles |= {raw, base64.b64encode(raw), urllib.parse.quote(key, safe="").encode()}
            if len(raw) > _LEAST_PREFIX:
                self._prefixes.append((raw[:_LEAST_PREFIX], raw))
        # The longest first, so that an encoding which contains another is replaced as a whole.
        self._needles = sorted(needles, key=len, reverse=True)

    def touches(self, data: bytes) -> bool:
        """Whether anything would be replaced."""
        return any(needle in data for needle in self._needles) or any(
            prefix in data for prefix, _ in self._prefixes
        )

    def scrub(self, data: bytes) -> bytes:
        """`data` without keys; a prefix of at least 12 bytes goes as far as it agrees with the key."""
        for needle in self._needles:
            data = data.replace(needle, MARK)
        for prefix, key in self._prefixes:
            data = _without_prefix(data, prefix, key)
        return data

    def scrub_text(self, text: str) -> str:
        """The same for text, such as a header value."""
        return self.scrub(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def _without_prefix(data: bytes, prefix: bytes, key: bytes) -> bytes:
    at = data.find(prefix)
    while at >= 0:
        end = len(prefix)
        while end < len(key) and data[at + end : at + end + 1] == key[end : end + 1]:
            end += 1
        data = data[:at] + MARK + data[at + end :]
        at = data.find(prefix, at + len(MARK))
    return data
