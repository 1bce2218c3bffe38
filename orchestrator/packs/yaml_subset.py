"""Strict reading of the YAML that compose files are written in; everything else is refused by line.

Read: block and flow mappings and sequences, plain and quoted scalars of one line, literal blocks (`|`, `|-`),
comments. Refused with a sentence: anchors, aliases, merge keys, tags, folded blocks, several documents,
repeated keys, and plain words that versions of YAML read differently (`yes`, `0755`, `1e3`, `22:22`).
A file that this reads means the same to every reader of YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.packs.yaml_inline import (
    AMBIGUOUS,
    INTEGER,
    MAX_DEPTH,
    Flow,
    UnfinishedError,
    YamlError,
    plain,
    quoted,
)

MAX_CHARS: Final = 256 * 1024

_KEY: Final = re.compile(r"([A-Za-z0-9_./~$+<-][^:#'\"\[\]{},]*?)[ ]*:(?:[ ]+(.*))?")


@dataclass
class _Line:
    number: int
    indent: int
    text: str
    raw: str


def parse_yaml(text: str) -> Any:
    """The document as dicts with text keys, lists, text, int, float, bool and None; raises `YamlError`."""
    if len(text) > MAX_CHARS:
        raise YamlError(1, f"longer than {MAX_CHARS} characters")
    return _Parser(text).document()


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.split("\n"), 1):
        raw = raw.removesuffix("\r")
        if bad := re.search(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff]", raw):
            raise YamlError(number, f"the character {bad[0]!r}")
        content = raw.lstrip(" ")
        yield _Line(number, len(raw) - len(content), content.rstrip(" \t"), raw)


class _Parser:
    """Recursive descent over lines; `_at` is the next line that was not read."""

    def __init__(self, text: str) -> None:
        self._all = list(_lines(text))
        self._at = 0

    def document(self) -> Any:
        first = self._peek()
        if first is not None and first.raw == "---":
            self._at += 1
        line = self._peek()
        if line is None:
            return None
        value = self._block(0)
        if not isinstance(value, dict | list):
            raise YamlError(line.number, "the document is neither a mapping nor a list")
        left = self._peek()
        if left is not None:
            raise YamlError(left.number, "the indentation fits nothing above")
        return value

    def _peek(self) -> _Line | None:
        """The next line with content; blank lines and comments are passed over."""
        while self._at < len(self._all):
            line = self._all[self._at]
            if (line.text or "\t" in line.raw) and not line.text.startswith("#"):
                if "\t" in line.raw:
                    raise YamlError(line.number, "a tab; write blanks, or a block for a text with tabs")
                return line
            self._at += 1
        return None

    def _block(self, depth: int) -> Any:
        line = self._peek()
        assert line is not None
        if depth > MAX_DEPTH:
            raise YamlError(line.number, f"nested deeper than {MAX_DEPTH}")
        if line.text in ("---", "...") or line.text.startswith(("--- ", "%")):
            raise YamlError(line.number, "only one document without directives is read")
        if _is_item(line.text):
            return self._sequence(line.indent, depth)
        if self._key_of(line) is not None:
            return self._mapping(line.indent, depth)
        return self._inline(line, line.text, line.indent - 1, depth)

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._peek()) is not None and line.indent == indent and not _is_item(line.text):
            pair = self._key_of(line)
            if pair is None:
                raise YamlError(line.number, "neither a key nor an item of a list")
            key, rest = pair
            if key in found:
                raise YamlError(line.number, f"the key {key!r} is repeated")
            if key == "<<":
                raise YamlError(line.number, "merge keys are not read")
            found[key] = self._value(line, rest, indent, depth, same_indent_items=True)
        self._no_deeper(indent)
        return found

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (line := self._peek()) is not None and line.indent == indent and _is_item(line.text):
            rest = line.text[1:].lstrip(" ")
            inner = _Line(line.number, indent + len(line.text) - len(rest), rest, line.raw)
            if rest and (_is_item(rest) or self._key_of(inner) is not None):
                self._all[self._at] = inner
                found.append(self._block(depth + 1))
            else:
                found.append(self._value(line, rest, indent, depth, same_indent_items=False))
        self._no_deeper(indent)
        return found

    def _no_deeper(self, indent: int) -> None:
        line = self._peek()
        if line is not None and line.indent > indent:
            raise YamlError(line.number, "the indentation fits nothing above")

    def _value(self, line: _Line, rest: str, indent: int, depth: int, *, same_indent_items: bool) -> Any:
        """What stands behind a key or a dash: on the line itself, or in deeper lines."""
        if rest and not rest.startswith("#"):
            return self._inline(line, rest, indent, depth)
        self._at += 1
        below = self._peek()
        if below is None or below.indent < indent:
            return None
        if below.indent > indent or (same_indent_items and _is_item(below.text)):
            return self._block(depth + 1)
        return None

    def _key_of(self, line: _Line) -> tuple[str, str] | None:
        """(key, what follows the colon) of a line that is an entry of a mapping."""
        if line.text[:1] in ("'", '"'):
            key, end = quoted(line.text, 0, line.number)
            found = re.fullmatch(r"[ ]*:(?:[ ]+(.*))?", line.text[end:])
            return None if found is None else (key, found[1] or "")
        pair = _KEY.fullmatch(line.text)
        if pair is None:
            return None
        key = pair[1].rstrip(" ")
        if key != "<<" and AMBIGUOUS.fullmatch(key) and not INTEGER.fullmatch(key):
            raise YamlError(line.number, f"the key {key} is read in different ways; write it in quotes")
        return key, pair[2] or ""

    def _inline(self, line: _Line, rest: str, indent: int, depth: int) -> Any:
        """A value that starts on the line."""
        if rest[0] in "[{":
            return self._flow(rest, line.number, depth)
        if rest[0] == "|":
            return self._literal(line, rest, indent)
        self._at += 1
        if rest[0] in "'\"":
            text, end = quoted(rest, 0, line.number)
            if not re.fullmatch(r"[ ]*|[ ]+#.*", rest[end:]):
                raise YamlError(line.number, "something follows the closing quote")
            return self._alone(line, text, indent)
        word = re.split(r" #", rest, maxsplit=1)[0].rstrip(" ")
        if ": " in word or word.endswith(":"):
            raise YamlError(line.number, "a mapping inside a line; write it in quotes or below")
        return self._alone(line, plain(word, line.number), indent)

    def _alone(self, line: _Line, value: Any, indent: int) -> Any:
        below = self._peek()
        if below is not None and below.indent > indent:
            raise YamlError(
                below.number, f"values over several lines are not read (it starts in {line.number})"
            )
        return value

    def _literal(self, line: _Line, rest: str, indent: int) -> str:
        head = re.split(r"[ ]+#", rest, maxsplit=1)[0].rstrip(" ")
        if head not in ("|", "|-"):
            raise YamlError(line.number, f"the block head {head!r} is not read; write | or |-")
        self._at += 1
        taken: list[str] = []
        own: int | None = None
        while self._at < len(self._all):
            one = self._all[self._at]
            blank = not one.raw.strip(" ")
            if not blank:
                if own is None:
                    own = one.indent
                if one.indent <= indent or one.indent < own:
                    break
            taken.append(one.raw)
            self._at += 1
        if own is None or own <= indent:
            raise YamlError(line.number, "an empty block")
        if any(not one.strip(" ") and len(one) > own for one in taken):
            raise YamlError(line.number, "a line of blanks inside a block")
        while not taken[-1].strip(" "):
            taken.pop()
        body = "\n".join(one[own:] for one in taken)
        return body if head == "|-" else body + "\n"

    def _flow(self, rest: str, number: int, depth: int) -> Any:
        """A bracketed value, over as many lines as it takes."""
        text = rest
        self._at += 1
        while True:
            try:
                value, end = Flow(text, number).read(0, depth + 1)
                break
            except UnfinishedError:
                if self._at >= len(self._all):
                    raise YamlError(number, "the bracket is never closed") from None
                text += "\n" + self._all[self._at].text
                self._at += 1
        if not re.fullmatch(r"[ ]*|[ ]+#.*", text[end:]):
            raise YamlError(number, "something follows the closing bracket")
        return value


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")
