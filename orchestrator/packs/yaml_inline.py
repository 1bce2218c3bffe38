"""Scalars and bracketed values of `orchestrator.packs.yaml_subset`: what stands inside a line."""

from __future__ import annotations

import re
from typing import Any, Final

from orchestrator.packs.errors import PackError

MAX_DEPTH: Final = 40

INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
AMBIGUOUS: Final = re.compile(
    r"y|n|yes|no|on|off|"  # truth values to some readers
    r"[-+]?[0-9][0-9_]*(:[0-9]+)+(\.[0-9]*)?|"  # sexagesimal to some
    r"[-+]?[0-9][0-9_.]*([eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+([eE][-+]?[0-9]+)?|"
    r"[-+]?0[xXoObB][0-9a-fA-F_]+|[-+]?\.(inf|nan)|\.(inf|nan)|"
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|=|<<",
    re.IGNORECASE,
)
_WORDS: Final = {"null": None, "~": None, "true": True, "false": False}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "/": "/", " ": " "}
_STARTS: Final = {
    "&": "anchors are not read",
    "*": "aliases are not read",
    "!": "tags are not read",
    ">": "folded blocks are not read; write a literal block (|) or one line",
    "@": "a value cannot start with @",
    "`": "a value cannot start with a backtick",
    "%": "directives are not read",
    "?": "complex keys are not read",
}


class YamlError(PackError):
    """The text is not of the subset that is read; the message names the line."""

    code = "yaml"

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


class UnfinishedError(Exception):
    """The text ended inside a bracket."""


class Flow:
    """Reads one bracketed value out of a text; positions go from left to right only."""

    def __init__(self, text: str, number: int) -> None:
        self._text = text
        self._number = number

    def read(self, at: int, depth: int) -> tuple[Any, int]:
        """(value, where it ends)."""
        if depth > MAX_DEPTH:
            raise YamlError(self._number, f"nested deeper than {MAX_DEPTH}")
        start = self._text[at]
        if start == "[":
            return self._list(at + 1, depth)
        if start == "{":
            return self._object(at + 1, depth)
        if start in "'\"":
            return quoted(self._text, at, self._number)
        end = at
        while end < len(self._text) and self._text[end] not in ",[]{}\n":
            if self._text[end] == ":" and self._text[end + 1 : end + 2] in ("", " ", "\n", ",", "]", "}"):
                break
            if self._text[end] == "#" and self._text[end - 1] == " ":
                break
            end += 1
        if end == at:
            raise YamlError(self._number, f"{start!r} where a value must be")
        return plain(self._text[at:end].rstrip(" "), self._number), end

    def _skip(self, at: int) -> int:
        """Past blanks, line ends and comments; raises `UnfinishedError` at the end of the text."""
        while at < len(self._text):
            if self._text[at] in " \n":
                at += 1
            elif self._text[at] == "#" and self._text[at - 1] in " \n":
                end = self._text.find("\n", at)
                at = len(self._text) if end < 0 else end
            else:
                return at
        raise UnfinishedError

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self._skip(at)
        while self._text[at] != "]":
            value, at = self.read(at, depth + 1)
            found.append(value)
            at = self._skip(at)
            if self._text[at] == ",":
                at = self._skip(at + 1)
            elif self._text[at] != "]":
                raise YamlError(self._number, f"{self._text[at]!r} inside a list in brackets")
        return found, at + 1

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self._skip(at)
        while self._text[at] != "}":
            quoted = self._text[at] in "'\""
            key, at = self.read(at, depth + 1)
            if isinstance(key, int) and not isinstance(key, bool):
                key = str(key)
            if not isinstance(key, str) or (key == "<<" and not quoted) or key in found:
                raise YamlError(self._number, f"the key {key!r} in braces")
            while self._text[at : at + 1] == " ":
                at += 1
            if at == len(self._text):
                raise UnfinishedError
            if self._text[at] != ":":
                raise YamlError(self._number, f"the key {key!r} has no value on its line")
            at = self._skip(at + 1)
            found[key], at = (None, at) if self._text[at] in ",}" else self.read(at, depth + 1)
            at = self._skip(at)
            if self._text[at] == ",":
                at = self._skip(at + 1)
            elif self._text[at] != "}":
                raise YamlError(self._number, f"{self._text[at]!r} inside braces")
        return found, at + 1


def quoted(text: str, at: int, number: int) -> tuple[str, int]:
    """(content, where it ends) of the quoted text that starts at `at`; it must end on its line."""
    quote, out, end = text[at], [], at + 1
    while end < len(text) and text[end] != "\n":
        char = text[end]
        if char == quote:
            if quote == "'" and text[end + 1 : end + 2] == "'":
                out.append("'")
                end += 2
                continue
            return "".join(out), end + 1
        if char == "\\" and quote == '"':
            piece, end = _escaped(text, end + 1, number)
            out.append(piece)
            continue
        out.append(char)
        end += 1
    raise YamlError(number, "a quote that is not closed on its line")


def _escaped(text: str, at: int, number: int) -> tuple[str, int]:
    kind = text[at : at + 1]
    if kind in ("x", "u"):
        digits = text[at + 1 : at + (3 if kind == "x" else 5)]
        if not re.fullmatch(r"[0-9a-fA-F]{2}|[0-9a-fA-F]{4}", digits) or 0xD800 <= int(digits, 16) < 0xE000:
            raise YamlError(number, f"the escape \\{kind}{digits}")
        return chr(int(digits, 16)), at + 1 + len(digits)
    if kind not in _ESCAPES:
        raise YamlError(number, f"the escape \\{kind}")
    return _ESCAPES[kind], at + 1


def plain(text: str, number: int) -> Any:
    """What a plain scalar means; refused where readers of YAML differ."""
    if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.capitalize()):
        return _WORDS[text.lower()]
    if INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if AMBIGUOUS.fullmatch(text):
        raise YamlError(number, f"{text} is read in different ways; write it in quotes")
    if text[:1] in _STARTS:
        raise YamlError(number, _STARTS[text[0]])
    if text[:1] in ",[]{}#|'\"" or (text[:1] == "-" and text[1:2] in ("", " ")):
        raise YamlError(number, f"{text!r} is no value")
    return text
