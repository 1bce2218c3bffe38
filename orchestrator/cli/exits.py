"""The one exit-code table of the product (CLI-4)."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
REFUSED: Final = 1
WRONG_INPUT: Final = 2
NOT_IN_FULL: Final = 3
CANNOT: Final = 4
INTERRUPTED: Final = 130

TABLE: Final[dict[int, str]] = {
    DONE: "done as asked",
    REFUSED: "a check said no",
    WRONG_INPUT: "wrong input",
    NOT_IN_FULL: "finished but does not count in full",
    CANNOT: "undecided or cannot run here",
    INTERRUPTED: "interrupted and resumable",
}

SENTENCE: Final = "Exit codes: " + ", ".join(f"{code} {text}" for code, text in TABLE.items()) + "."
