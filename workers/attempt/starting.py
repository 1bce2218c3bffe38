"""Whose doing it was that a command never began, by the runtime's own words: pure.

The engine tells a command that could not be started as if it had been: the runtime's words as its output and
a shell's exit code. What the agent brings along is its program; everything else about the start is ours.
"""

from __future__ import annotations

import re
from typing import Final

_TOLD: Final = 500
_PROGRAM: Final = re.compile(r'(?<!fork/)exec(?:: "| /)|executable|failed to load')
"""How runc, crun and gVisor speak of the program; a folder or a user that is not there is put otherwise."""


def refusal(output: bytes | bytearray) -> tuple[str, bool]:
    """The runtime's words as one line, and whether they are about the program that was to be started."""
    said = bytes(output[:_TOLD]).decode("utf-8", "replace").strip()
    return said, _PROGRAM.search(said) is not None
