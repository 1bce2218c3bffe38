"""Reads JSON of unknown quality: whatever is not as expected is passed over, nothing here raises."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from workers.relay.wire.sse import SseParser

_BOM: Final = b"\xef\xbb\xbf"
_BETWEEN: Final = " \t\r\n,"
_DECODER: Final = json.JSONDecoder()
_TEXT_FIELDS: Final = ("text", "refusal")
_UNSEEN: Final = ("cache_control",)


def loads(text: str) -> Any:
    """The value of a JSON text; None for what is not JSON."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def compact(value: Any) -> str:
    """A JSON value as text, in one line; empty for one that is nested too deep."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return ""


def string(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def either(holder: Mapping[str, Any], *names: str) -> Any:
    """The first of several spellings of a field that holds something."""
    return next((holder[name] for name in names if holder.get(name) is not None), None)


def first_choice(value: Any) -> Mapping[str, Any]:
    """Of a list of choices the one with index 0, which is also meant by none."""
    return next((item for item in objects(value) if item.get("index") in (None, 0)), {})


def argument_text(value: Any) -> str:
    """Arguments of a tool call as text: a string stays as it is, anything else is written as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)


def _note(part: Mapping[str, Any]) -> str:
    """What stands for a part that is no text: its kind, size and digest, so that two of them stay apart."""
    raw = compact({name: value for name, value in part.items() if name not in _UNSEEN})
    kind = string(part.get("type")) or next(iter(part), "part")
    data = raw.encode("utf-8", "replace")
    return f"[{kind[:40]}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}]"


def text_of(content: Any, *, noted: bool = True) -> str:
    """The text of a message's content: a string, or its parts line by line.

    A part without text (an image, a document) is noted by kind, size and digest, or left out.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part:
            found = either(part, *_TEXT_FIELDS)
            if isinstance(found, str):
                texts.append(found)
            elif noted:
                texts.append(_note(part))
    return "\n".join(texts)


def _values(text: str) -> Iterator[Any]:
    """JSON values one after the other, commas and white space between them; ends where one is cut."""
    at = 0
    while at < len(text):
        if text[at] in _BETWEEN:
            at += 1
            continue
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def documents(raw: bytes) -> list[dict[str, Any]]:
    """The JSON objects of an answer: one object, the elements of an array, or the data of its events.

    Works on what there is: an array cut short gives its whole elements, a stream its whole events.
    """
    start = raw.removeprefix(_BOM).lstrip()
    if start[:1] in (b"{", b"["):
        text = start.removeprefix(b"[").decode("utf-8", "replace")
        return [value for value in _values(text) if isinstance(value, dict)]
    # The blank line is for a last event that came without its own.
    events = SseParser(limit_bytes=len(raw) + 2).feed(raw + b"\n\n")
    found = (loads(event.data) for event in events if event.data is not None)
    return [value for value in found if isinstance(value, dict)]
