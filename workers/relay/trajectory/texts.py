"""Texts for a file: whole characters only, and not longer than is useful."""

from __future__ import annotations

from typing import Final

TEXT_LIMIT_BYTES: Final = 64 << 10


def repaired(text: str) -> str:
    """`text` without halves of surrogate pairs: two that belong together become their character.

    A stream may cut a pair between two of its events; a half that stays alone becomes U+FFFD.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def head(text: str, limit_bytes: int) -> str:
    """As many whole characters from the start as fit into `limit_bytes` of UTF-8."""
    if len(text) * 4 <= limit_bytes:
        return text
    raw = text.encode("utf-8")
    return text if len(raw) <= limit_bytes else raw[:limit_bytes].decode("utf-8", "ignore")


def capped(text: str) -> tuple[str, int | None]:
    """At most `TEXT_LIMIT_BYTES` of `text`, and its full size in bytes when that cut something off."""
    kept = head(text, TEXT_LIMIT_BYTES)
    return (kept, None) if len(kept) == len(text) else (kept, len(text.encode("utf-8")))
