"""The neutral reply between a script's turn and a provider's wire format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from workers.rehearsal.script import Usage

PIECE_CHARACTERS: Final = 12
BYTES_PER_TOKEN: Final = 4


class Finish(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    TOOL = "tool"
    LENGTH = "length"


class ToolKind(StrEnum):
    """How a tool is called: by JSON arguments, as the local shell of OpenAI Responses, or by JavaScript.

    CODE is the custom tool that codex offers to models it knows; its program calls `tools.exec_command`.
    """

    FUNCTION = "function"
    LOCAL_SHELL = "local_shell"
    CODE = "code"


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool that the request offered, in the `namespace` it was offered in.

    `arguments` of a local shell are `{"command": [...]}`, of CODE `{"input": program}`.
    """

    name: str
    arguments: Mapping[str, Any]
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str | None = None

    @property
    def arguments_json(self) -> str:
        """The arguments as compact JSON text."""
        return compact(self.arguments)


@dataclass(frozen=True)
class Reply:
    """One reply of the model; `seed` (hex) makes its ids, `created_s` is Unix time in seconds."""

    seed: str
    model: str
    created_s: int
    text: str
    call: ToolCall | None
    finish: Finish
    usage: Usage

    def ident(self, prefix: str, length: int) -> str:
        """An id of `length` hex digits after `prefix`; the same reply has the same ids."""
        return prefix + hashlib.sha256(f"{self.seed}:{prefix}".encode()).hexdigest()[:length]


def compact(value: object) -> str:
    """`value` as JSON without spaces, characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)


def pieces(text: str) -> list[str]:
    """`text` in stream-sized pieces of at most 12 characters, none empty."""
    return [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]


def tokens(size_bytes: int) -> int:
    """The scripted provider's own tokenizer: four bytes are one token, rounded up."""
    return -(-size_bytes // BYTES_PER_TOKEN)
