"""Server-sent events, cut out of a byte stream without changing a byte (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from workers.relay.wire.errors import WireError

EVENT_LIMIT_BYTES: Final = 64 << 20

_BOM: Final = b"\xef\xbb\xbf"
# A line end and the blank line after it. The look-ahead keeps one CRLF from counting as two line ends.
_END_OF_EVENT: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LONGEST_END: Final = 4


@dataclass(frozen=True, slots=True)
class Event:
    r"""One event: `raw` is all of its bytes with the blank line that ends it.

    `data` joins the `data` lines with "\n" (bytes that are not UTF-8 become U+FFFD); None without any.
    `name` is the `event` field. Comments, `id` and `retry` are in `raw` only.
    """

    raw: bytes
    name: str | None
    data: str | None


def _read(raw: bytes, *, first: bool) -> Event:
    """The event of its bytes; a byte order mark at the start of the stream is not read."""
    name: str | None = None
    data: list[bytes] = []
    text = raw.removeprefix(_BOM) if first else raw
    for line in text.splitlines():  # of bytes: at CR, LF and CRLF only
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value[1:] if value.startswith(b" ") else value)
        elif field == b"event":
            name = (value[1:] if value.startswith(b" ") else value).decode("utf-8", "replace")
    if not data:
        return Event(raw, name, None)
    joined = data[0] if len(data) == 1 else b"\n".join(data)
    return Event(raw, name, joined.decode("utf-8", "replace"))


class SseParser:
    """Splits a stream into events, however it arrives.

    The `raw` of all events and `tail()` together are the input. An event is handed out with the first byte
    that surely ends it, so that nothing is delayed: when that byte is a CR whose LF comes in the next piece,
    the LF leads the next event, where it is an empty line and means nothing.
    """

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._first = True

    def feed(self, data: bytes) -> list[Event]:
        """Events that `data` completes; raises `WireError` when one is larger than the limit."""
        rest = self._rest
        source: bytes | bytearray = data
        at, scan = 0, 0
        if rest:
            scan = max(0, len(rest) - _LONGEST_END + 1)
            rest += data
            source = rest
        events: list[Event] = []
        while (end := _END_OF_EVENT.search(source, scan)) is not None:
            scan = end.end()
            self._check(scan - at)
            events.append(_read(bytes(source[at:scan]), first=self._first))
            self._first = False
            at = scan
        self._check(len(source) - at)
        if source is rest:
            del rest[:at]
        elif at < len(data):
            self._rest = bytearray(data[at:])
        return events

    def tail(self) -> bytes:
        """The bytes after the last event."""
        return bytes(self._rest)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            raise WireError(f"an event of more than {self._limit_bytes} bytes")
