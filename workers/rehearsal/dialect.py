"""What the server needs of a wire format, and the framing that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workers.rehearsal.asked import Asked
from workers.rehearsal.reply import Reply, compact

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
JSON: Final = "application/json"
TROUBLE: Final = "The server had an error while processing your request (scripted fault)."


@dataclass(frozen=True)
class Refused:
    """An error in a family's shape: the JSON body and the headers that belong to it."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """One wire format, as functions.

    `whole`: the JSON body of a reply. `frames`: its stream, one bytes object per event. `trouble`: what an
    upset provider sends instead of the rest of the stream, after so many events. `refused`: an error by
    status, message and seconds to wait. `key_headers` and `key_parameter`: where the key is looked for.
    """

    whole: Callable[[Reply], dict[str, Any]]
    frames: Callable[[Reply, Asked], list[bytes]]
    trouble: Callable[[Reply, int], list[bytes]]
    refused: Callable[[int, str, int | None], Refused]
    key_headers: tuple[str, ...]
    key_parameter: str | None = None
    request_id_header: str | None = None
    stream_type: str = EVENT_STREAM


def encoded(value: object) -> bytes:
    """`value` as compact JSON in UTF-8; a lone surrogate of the request becomes a question mark."""
    return compact(value).encode("utf-8", "replace")


def sse(value: object, event: str | None = None, *, line_end: bytes = b"\n") -> bytes:
    """One server-sent event with `value` as its JSON data."""
    head = b"" if event is None else b"event: " + event.encode() + line_end
    return head + b"data: " + encoded(value) + 2 * line_end


def wait_headers(retry_after_s: int | None) -> dict[str, str]:
    """The `retry-after` header, only when there is something to say."""
    return {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
