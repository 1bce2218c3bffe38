"""From the bytes of an answer to what the model said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from workers.relay.trajectory import chat, gemini, messages, responses
from workers.relay.trajectory.loose import documents
from workers.relay.trajectory.neutral import Answer
from workers.relay.wire.family import Family

_READERS: Final[Mapping[Family, Callable[[Sequence[Mapping[str, Any]]], Answer]]] = {
    Family.OPENAI_CHAT: chat.answer,
    Family.OPENAI_RESPONSES: responses.answer,
    Family.ANTHROPIC: messages.answer,
    Family.GOOGLE: gemini.answer,
}


def read_answer(family: Family, raw: bytes) -> Answer:
    """The answer in `raw`: one JSON object, a JSON array or an event stream, whichever it is.

    Never raises: of a broken stream it gives what was there, of anything else an empty answer. Embeddings
    say nothing.
    """
    reader = _READERS.get(family)
    return Answer() if reader is None else reader(documents(raw))
