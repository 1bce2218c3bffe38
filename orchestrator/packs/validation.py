"""Validation errors of pydantic as sentences: which key, which value, what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError


def _key(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _sentence(error: Any, hidden_below: Collection[str]) -> str:
    location = error["loc"]
    key = _key(location) or "the whole file"
    if error["type"] == "missing":
        return f"{key} is missing"
    if error["type"] == "extra_forbidden":
        return f"{key} is not a known key"
    hide = isinstance(error["input"], dict) or any(str(part) in hidden_below for part in location)
    value = "" if hide else f" = {repr(error['input'])[:80]}"
    # Our own messages are written to follow a colon; the library's start with a capital letter.
    wrong = error["msg"].removeprefix("Value error, ")
    if wrong == error["msg"]:
        wrong = wrong[:1].lower() + wrong[1:]
    return f"{key}{value}: {wrong}"


def sentences(error: ValidationError, hidden_below: Collection[str] = ()) -> list[str]:
    """One sentence per bad key, sorted; values inside a section named in `hidden_below` are kept back."""
    found = error.errors(include_url=False, include_context=False)
    return sorted({_sentence(item, hidden_below) for item in found})
