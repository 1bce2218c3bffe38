"""Strict reading of the YAML of compose files: the text is scanned by PyYAML, what it means is decided here.

A plain word that readers of YAML read differently (`yes`, `0755`, `1e3`, `22:22`) is refused, and so are
anchors, aliases, merge keys, tags, several documents and repeated keys. So a file that this reads means the
same to every reader, the one that runs the task elsewhere included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from orchestrator.packs.errors import PackError

MAX_CHARS: Final = 256 * 1024
MAX_DEPTH: Final = 40

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_AMBIGUOUS: Final = re.compile(
    r"y|n|yes|no|on|off|"  # truth values to some readers
    r"[-+]?[0-9][0-9_]*(:[0-9]+)+(\.[0-9]*)?|"  # sexagesimal to some
    r"[-+]?[0-9][0-9_.]*([eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+([eE][-+]?[0-9]+)?|"
    r"[-+]?0[xXoObB][0-9a-fA-F_]+|[-+]?\.(inf|nan)|\.(inf|nan)|"
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|=|<<",
    re.IGNORECASE,
)
_WORDS: Final = {"": None, "null": None, "~": None, "true": True, "false": False}
_UNREAD: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff\ud800-\udfff]")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

Events = Iterator[Any]
"""Of `yaml.Event`, whose attributes follow from their classes."""


class YamlError(PackError):
    """The text is not YAML, or of a kind that is not read; the message names the line."""

    code = "yaml"

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


def parse_yaml(text: str) -> Any:
    """The document as dicts with text keys, lists, text, int, float, bool and None; raises `YamlError`."""
    if len(text) > MAX_CHARS:
        raise YamlError(1, f"longer than {MAX_CHARS} characters")
    if bad := _UNREAD.search(text.replace("\r\n", "\n")):
        raise YamlError(text.count("\n", 0, bad.start()) + 1, f"the character {bad[0]!r}")
    try:
        return _document(iter(yaml.parse(text, Loader=yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        told = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(line, f"not YAML: {told}") from None
    except ValueError as error:  # an escape beyond the last character
        raise YamlError(1, f"not YAML: {error}") from None


def _document(events: Events) -> Any:
    """The only document of a stream of events; a stream without any is None."""
    next(events)
    start = next(events)
    if isinstance(start, yaml.StreamEndEvent):
        return None
    if start.version or start.tags:
        raise YamlError(1, "directives are not read")
    first = next(events)
    value = _value(first, events, 0)
    next(events)
    after = next(events)
    if not isinstance(after, yaml.StreamEndEvent):
        raise YamlError(_line(after), "a second document")
    if not isinstance(value, dict | list | None):
        raise YamlError(_line(first), "the document is neither a mapping nor a list")
    return value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _value(event: Any, events: Events, depth: int) -> Any:
    """What an event and those that belong to it say; which attributes it has follows from its class."""
    if isinstance(event, yaml.AliasEvent):
        raise YamlError(_line(event), "aliases are not read")
    if depth > MAX_DEPTH:
        raise YamlError(_line(event), f"nested deeper than {MAX_DEPTH}")
    if event.anchor is not None:
        raise YamlError(_line(event), "anchors are not read")
    if event.tag is not None:
        raise YamlError(_line(event), "tags are not read")
    if isinstance(event, yaml.ScalarEvent):
        if _SURROGATE.search(event.value):
            raise YamlError(_line(event), "the escape of a surrogate")
        return event.value if event.style else _plain(event.value, _line(event))
    if isinstance(event, yaml.SequenceStartEvent):
        return [_value(one, events, depth + 1) for one in _until(events, yaml.SequenceEndEvent)]
    found: dict[str, Any] = {}
    for one in _until(events, yaml.MappingEndEvent):
        key = _key(one, events)
        if key in found:
            raise YamlError(_line(one), f"the key {key!r} is repeated")
        found[key] = _value(next(events), events, depth + 1)
    return found


def _until(events: Events, end: type[Any]) -> Events:
    while not isinstance(event := next(events), end):
        yield event


def _key(event: Any, events: Events) -> str:
    """A key is text: `8000:` is read as "8000", what would be a truth value to some is refused."""
    if not isinstance(event, yaml.ScalarEvent):
        raise YamlError(_line(event), "complex keys are not read")
    value = _value(event, events, 0)
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise YamlError(_line(event), f"the key {event.value} is read in different ways; write it in quotes")


def _plain(text: str, line: int) -> Any:
    """What a plain scalar means; refused where readers of YAML differ."""
    if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.capitalize()):
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _AMBIGUOUS.fullmatch(text):
        raise YamlError(line, f"{text} is read in different ways; write it in quotes")
    return text
