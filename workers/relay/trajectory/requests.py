"""From the bytes of a request to the conversation that it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from workers.relay.trajectory import chat, gemini, messages, responses
from workers.relay.trajectory.neutral import Request
from workers.relay.wire.body import parse_body
from workers.relay.wire.errors import WireError
from workers.relay.wire.family import Family

_READERS: Final[Mapping[Family, Callable[[Mapping[str, Any]], Request]]] = {
    Family.OPENAI_CHAT: chat.request,
    Family.OPENAI_RESPONSES: responses.request,
    Family.ANTHROPIC: messages.request,
    Family.GOOGLE: gemini.request,
}


def read_request(family: Family, raw: bytes) -> Request | None:
    """The conversation of a request body; None for one that cannot be read, or that holds none.

    Messages of which nothing is shown are left out.
    """
    reader = _READERS.get(family)
    if reader is None:
        return None
    try:
        found = reader(parse_body(raw))
    except WireError:
        return None
    return Request(tuple(message for message in found.messages if not message.empty), found.tools)
