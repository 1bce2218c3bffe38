"""The content parts of a request: media, what the provider would fetch, what lies stored with it.

Only positions that a provider reads as media are looked at: never text, never the arguments of tool calls
or the results in a function response, where a URL is just a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workers.relay.wire.family import Family

URL_CHARACTERS: Final = 200

_ROOTS: Final[Mapping[Family, tuple[str, ...]]] = {
    Family.OPENAI_CHAT: ("messages",),
    Family.OPENAI_RESPONSES: ("input",),
    Family.OPENAI_EMBEDDINGS: ("input",),
    Family.ANTHROPIC: ("system", "messages"),
    Family.GOOGLE: ("contents", "systemInstruction", "system_instruction"),
}
_STORED_FIELDS: Final[Mapping[Family, tuple[str, ...]]] = {
    Family.OPENAI_RESPONSES: ("previous_response_id", "conversation", "background", "prompt"),
    Family.GOOGLE: ("cachedContent", "cached_content"),
}
_PLAIN: Final = frozenset({"role", "content", "text"})
"""Fields that say nothing of media: a part of these alone is not looked at."""
_NESTED: Final = ("content", "output", "parts")
_WRAPPERS: Final = ("source", "functionResponse", "function_response")
_MEDIA_TYPES: Final = frozenset(
    {
        *("image", "image_url", "image_file", "input_image", "computer_screenshot"),
        *("audio", "audio_url", "input_audio", "video", "video_url", "input_video"),
        *("document", "document_url", "file", "input_file"),
    }
)
_IMAGE_TYPES: Final = ("image", "image_url", "image_file", "input_image", "computer_screenshot")
_GOOGLE_INLINE: Final = ("inlineData", "inline_data")
_GOOGLE_FILE: Final = ("fileData", "file_data")
_URL_FIELDS: Final = ("image_url", "audio_url", "video_url", "document_url", "file_url")
_BOXES: Final = ("file", "image_file", "input_audio", "input_video", "image", "audio", "video", "source")
_BOXED_URLS: Final = ("url", "uri", "file_url")
_BOXED_DATA: Final = ("data", "file_data")
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass
class Survey:
    """What the parts of one request hold; see `RequestFacts` for the fields."""

    media_parts: int = 0
    long_media: int = 0
    remote_urls: list[str] = field(default_factory=list)
    stored: str | None = None
    cache_ttls: set[str] = field(default_factory=set)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a part list (or a single part), outer ones first."""
    for part in value if isinstance(value, list) else (value,):
        if not isinstance(part, dict):
            continue
        yield part
        for name in _NESTED:
            yield from _parts(part.get(name))
        for name in _WRAPPERS:
            box = part.get(name)
            if isinstance(box, dict):
                for inner in ("content", "parts"):
                    yield from _parts(box.get(inner))


def _remote(value: Any) -> Iterator[str]:
    """The string of a URL position unless it carries its data itself."""
    if isinstance(value, str) and value and not value.lstrip().lower().startswith("data:"):
        yield value[:URL_CHARACTERS]


def _remote_data(value: Any) -> Iterator[str]:
    """The string of a data position when it is a URL after all (some gateways fetch it)."""
    if isinstance(value, str) and _SCHEME.match(value):
        yield value[:URL_CHARACTERS]


def _urls(part: dict[str, Any]) -> Iterator[str]:
    for name in _URL_FIELDS:
        value = part.get(name)
        yield from _remote(value.get("url") if isinstance(value, dict) else value)
    for name in _BOXES:
        box = part.get(name)
        if not isinstance(box, dict):
            if name != "source":  # of a search result: a name, never fetched
                yield from _remote_data(box)
            continue
        for inner in _BOXED_URLS:
            yield from _remote(box.get(inner))
        for inner in _BOXED_DATA:
            yield from _remote_data(box.get(inner))
    for name in _GOOGLE_FILE:
        box = part.get(name)
        if isinstance(box, dict):
            uris = (box.get("fileUri"), box.get("file_uri"))
            yield from (uri[:URL_CHARACTERS] for uri in uris if isinstance(uri, str))
        else:
            yield from _remote_data(box)


def _is_media(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if isinstance(kind, str) and kind in _MEDIA_TYPES:
        return True
    if any(part.get(name) is not None for name in _URL_FIELDS):
        return True
    return any(isinstance(part.get(name), dict) for name in (*_GOOGLE_INLINE, *_GOOGLE_FILE))


def _is_image(part: dict[str, Any]) -> bool:
    """Whether a media part is surely a single picture; a document packs text, silence costs as sound."""
    if part.get("type") in _IMAGE_TYPES or part.get("image_url") is not None:
        return True
    for name in _GOOGLE_INLINE:
        box = part.get(name)
        if isinstance(box, dict):
            kinds = (box.get("mimeType"), box.get("mime_type"))
            return any(isinstance(kind, str) and kind.lower().startswith("image/") for kind in kinds)
    return False


def _stored_in_part(family: Family, part: dict[str, Any]) -> str | None:
    """The field of a part that points to something kept by the provider."""
    if part.get("file_id") is not None:
        return "file_id"
    for name in _BOXES:
        box = part.get(name)
        if isinstance(box, dict):
            if box.get("file_id") is not None or (name == "source" and box.get("type") == "file"):
                return "file_id"
            if name == "audio" and box.get("id") is not None:
                return "audio"
    if family is not Family.OPENAI_RESPONSES:
        return None
    kind = part.get("type")  # an item of nothing but an id is a reference as well
    bare = kind is None and "id" in part and not {"role", "content"} & part.keys()
    return "item_reference" if kind == "item_reference" or bare else None


def _stored_in_body(family: Family, body: dict[str, Any]) -> str | None:
    for name in _STORED_FIELDS.get(family, ()):
        value = body.get(name)
        if value is not None and not (name == "background" and value is False):
            return name
    if family is Family.ANTHROPIC:
        container = body.get("container")
        named = container.get("id") if isinstance(container, dict) else container
        if named is not None:
            return "container"
    return None


def _note_ttl(found: Survey, holder: Any) -> None:
    control = holder.get("cache_control") if isinstance(holder, dict) else None
    if isinstance(control, dict):
        found.cache_ttls.add("1h" if control.get("ttl") == "1h" else "5m")


def survey(family: Family, body: dict[str, Any]) -> Survey:
    """Walks the parts of a request once. Odd shapes are passed over: the provider will refuse them."""
    found = Survey(stored=_stored_in_body(family, body))
    _note_ttl(found, body)
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        _note_ttl(found, tool)
    for root in _ROOTS[family]:
        for part in _parts(body.get(root)):
            if _PLAIN.issuperset(part):
                continue
            _note_ttl(found, part)
            if _is_media(part):
                found.media_parts += 1
                found.long_media += not _is_image(part)
            found.remote_urls.extend(_urls(part))
            found.stored = found.stored or _stored_in_part(family, part)
    return found
