"""Values of a compose file: words, durations, sizes, lists, and what must not come from the host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

_VARIABLE: Final = re.compile(
    r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)([^${}]*))?\}|([A-Za-z_][A-Za-z0-9_]*)|)"
)
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([bkmg]?)b?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_CPUS: Final = re.compile(r"\d{1,4}(\.\d{1,3})?")


class ValueProblemError(ValueError):
    """A value that is not of the form it must have; the text is the end of a sentence."""


def interpolated(value: Any, defaulted: set[str]) -> Any:
    """`value` with `$$` and `${VAR:-default}` resolved in every text below it, keys apart.

    The host's environment is never read: names whose default was taken are added to `defaulted`, and a
    variable without one raises `ValueProblemError`.
    """
    if isinstance(value, dict):
        return {key: interpolated(item, defaulted) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, defaulted) for item in value]
    if not isinstance(value, str):
        return value

    def resolve(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        if match[2] and match[3]:
            defaulted.add(match[2])
            return match[4]
        name = match[2] or match[5]
        if name is None:
            what = "a variable of a form that is not read" if value[match.end() :][:1] == "{" else "a lone $"
            raise ValueProblemError(f"{value!r} holds {what}; write $$ for the character itself")
        raise ValueProblemError(f"{name} must come from the host's environment, which is never read")

    return _VARIABLE.sub(resolve, value)


def text_of(value: Any) -> str:
    """A text; a whole number is taken as it is written."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or "\0" in value:
        raise ValueProblemError(f"{value!r} is not a text; write it in quotes")
    return value


def words_of(value: Any) -> tuple[str, ...]:
    """A command: a list of texts, or one text split as a shell splits it."""
    if isinstance(value, list):
        return tuple(text_of(item) for item in value)
    text = text_of(value)
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise ValueProblemError(f"{value!r} cannot be split into words") from None


def variables_of(value: Any) -> dict[str, str]:
    """Names with values, from a mapping or a list of `NAME=value`."""
    if value is None:
        return {}
    if isinstance(value, list):
        pairs = [text_of(item).partition("=") for item in value]
        items = [(name, content if equals else None) for name, equals, content in pairs]
    elif isinstance(value, dict):
        items = list(value.items())
    else:
        raise ValueProblemError("must be a mapping or a list of NAME=value")
    out: dict[str, str] = {}
    for name, content in items:
        if content is None:
            raise ValueProblemError(f"{name} must come from the host's environment, which is never read")
        if not name or "\0" in name or "=" in name:
            raise ValueProblemError(f"{name!r} is no name of a variable")
        if isinstance(content, bool):
            raise ValueProblemError(f"{name}: true and false must be in quotes")
        out[name] = text_of(content)
    return out


def milliseconds_of(value: Any) -> int:
    """`1h2m3.5s` or `500ms` in whole milliseconds, rounded up."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueProblemError(f"{value!r} is not a duration like 5s or 1m30s")
    hours, minutes, seconds, milliseconds = (Decimal(part or 0) for part in match.groups())
    total = ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
    if total > 3_600_000:
        raise ValueProblemError(f"{value!r} is longer than an hour")
    return int(-(-total // 1))


def bytes_of(value: Any) -> int:
    """`512m`, `1.5g`, `64MB` or a number of bytes, rounded down."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None or (found := int(Decimal(match[1]) * _FACTORS[match[2].lower()])) < 6 << 20:
        raise ValueProblemError(f"{value!r} is not a size of at least 6m")
    return found


def cpus_milli_of(value: Any) -> int:
    """CPUs in thousandths: `0.5` is 500."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _CPUS.fullmatch(text) or not (found := int(Decimal(text) * 1000)):
        raise ValueProblemError(f"{value!r} is not a number of CPUs")
    return found


def count_of(value: Any, least: int, most: int) -> int:
    """A whole number between two bounds."""
    text = str(value) if not isinstance(value, bool) else ""
    if not re.fullmatch(r"\d{1,6}", text) or not least <= int(text) <= most:
        raise ValueProblemError(f"{value!r} is not a whole number from {least} to {most}")
    return int(text)


def mapping_of(value: Any) -> Mapping[str, Any]:
    """A mapping."""
    if not isinstance(value, dict):
        raise ValueProblemError("must be a mapping")
    return value
