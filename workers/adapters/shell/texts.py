"""Every sentence that the model reads, and how long texts are shortened: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMMAND_LIMIT_S: Final = 120.0
"""Time of one command; less when the attempt's deadline is nearer."""
OUTPUT_LIMIT_BYTES: Final = 16 << 10
"""What the model sees of one command's output, in UTF-8."""
TOOL_DESCRIPTION: Final = (
    "Run one command line in a fresh shell. The answer is its exit code and what it printed (standard "
    "output and standard error)."
)
COMMAND_DESCRIPTION: Final = "The command line."

_MARK_BYTES: Final = 64


@dataclass(frozen=True)
class CommandResult:
    """What one command did. `output`: standard output and error; `exit_code` None: not known."""

    output: bytes
    exit_code: int | None
    timed_out: bool


def system_prompt(workdir: str) -> str:
    """The system prompt; `workdir` is the folder in which every shell starts."""
    return (
        "You work alone in a Linux container, through its shell. The task is in the first message; nobody "
        "can answer questions.\n"
        "Use the tool bash to run commands. Commands run one at a time, each in a fresh shell that starts in "
        f"{workdir}: files stay, variables and the current folder do not. There is no terminal and no "
        f"input, and a command has at most {COMMAND_LIMIT_S:.0f} seconds. Long output is shown without its "
        "middle.\n"
        "When the task is done, answer without running a command. That ends the work."
    )


def shortened(text: str, limit_bytes: int) -> str:
    """`text` in at most `limit_bytes` of UTF-8: head, a line that says how much is left out, tail.

    Halves of surrogate pairs become question marks, so that the result can always be encoded.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    half = max(0, limit_bytes - _MARK_BYTES) // 2
    # A character that the cut goes through is left out whole.
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[len(raw) - half :].decode("utf-8", "ignore")
    missing = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[{missing} bytes left out]\n{tail}"


def shown(result: CommandResult, limit_s: float) -> str:
    """What the model is told of a command that had `limit_s` seconds.

    Bytes that are no UTF-8, and NUL, which some providers refuse, become replacement characters.
    """
    if result.timed_out:
        head = f"no end within {limit_s:.0f} seconds"
    elif result.exit_code is None:
        head = "exit code: unknown"
    else:
        head = f"exit code: {result.exit_code}"
    text = result.output.decode("utf-8", "replace").replace("\0", "\ufffd")
    return f"{head}\n{shortened(text, OUTPUT_LIMIT_BYTES) or '(no output)'}"
