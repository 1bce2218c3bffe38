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
        self._signs = [*needles, *(prefix for prefix, _ in self._prefixes)]

    def touches(self, data: bytes) -> bool:
        """Whether anything would be replaced."""
        return any(map(data.__contains__, self._signs))

    def scrub(self, data: bytes) -> bytes:
        """`data` without keys; a prefix of at least 12 bytes goes as far as it agrees with the key."""
        return self._without_beginnings(self._without_whole(data))

    def stream(self) -> KeyStream:
        """For bytes that arrive in pieces."""
        return KeyStream(self)

    def cut(self, data: bytes) -> tuple[bytes, bytes]:
        """What of `data` can be shown already, scrubbed, and its end that may be the beginning of a key."""
        data = self._without_whole(data)
        kept = max((_overlap(data, needle) for needle in self._needles), default=0)
        at = len(data) - kept
        return self._without_beginnings(data[:at]), data[at:]

    def _without_whole(self, data: bytes) -> bytes:
        for needle in self._needles:
            data = data.replace(needle, MARK)
        return data

    def _without_beginnings(self, data: bytes) -> bytes:
        for prefix, key in self._prefixes:
            data = _without_prefix(data, prefix, key)
        return data

    def scrub_text(self, text: str) -> str:
        """The same for text, such as a header value."""
        if text.isascii() and not self.touches(text.encode()):
            return text
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return self.scrub(whole.encode()).decode("utf-8", "replace")


class KeyStream:
    """Scrubs one stream piece by piece; a key that is split between two pieces is found all the same."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """The scrubbed bytes that are ready; fewer than a key's length wait for what follows."""
        ready, self._kept = self._redactor.cut(self._kept + data)
        return ready

    def rest(self) -> bytes:
        """What waited, scrubbed; at the end of the stream."""
        kept, self._kept = self._kept, b""
        return self._redactor.scrub(kept)


def _overlap(data: bytes, needle: bytes) -> int:
    """The longest end of `data` with which `needle` begins, but for the whole needle, in bytes."""
    tail = data[-(len(needle) - 1) :]
    at = tail.find(needle[:1])
    while at >= 0:
        if needle.startswith(tail[at:]):
            return len(tail) - at
        at = tail.find(needle[:1], at + 1)
    return 0


def _without_prefix(data: bytes, prefix: bytes, key: bytes) -> bytes:
    at = data.find(prefix)
    while at >= 0:
        end = len(prefix)
        while end < len(key) and data[at + end : at + end + 1] == key[end : end + 1]:
            end += 1
        data = data[:at] + MARK + data[at + end :]
        at = data.find(prefix, at + len(MARK))
    return data
