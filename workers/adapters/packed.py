"""From a packed agent's template and one try to the command that is run: pure, and the same for every agent.

The files below HOME travel as arguments of the starting shell: no call of the engine per try, and no
secret in them (a template of a file cannot use the token).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.agents.launching import LaunchTemplate
from orchestrator.agents.templates import filled
from workers.errors import WorkerError

MAX_ARGUMENT_BYTES: Final = 131_071
"""Linux takes no longer argument (32 pages with the closing NUL)."""

_START: Final = (
    "set -e; n=$1; shift; "
    'while [ "$n" -gt 0 ]; do '
    'case "$1" in */*) mkdir -p "$HOME/${1%/*}";; esac; '
    'printf %s "$2" > "$HOME/$1"; shift 2; n=$((n - 1)); '
    "done; "
)


class InstructionTooLongError(WorkerError):
    """The agent takes the instruction as an argument, and the task's is longer than one may be."""


@dataclass(frozen=True)
class TryContext:
    """What a template may use of one try; `values` by placeholder, `wire` the format of its model calls."""

    values: Mapping[str, str]
    wire: str


def template_of(agent: Mapping[str, Any]) -> LaunchTemplate:
    """The template in a revision's plain data."""
    return LaunchTemplate.model_validate_json(json.dumps(agent["launch"]))


def plan(
    template: LaunchTemplate, context: TryContext, *, attached: bool = False
) -> tuple[tuple[str, ...], dict[str, str]]:
    """argv and the variables beside the run contract; `attached` leaves standard input to who starts it.

    Raises `InstructionTooLongError` if an argument would be too long for the system.
    """
    extra = next((words for wire, words in template.wires.items() if wire == context.wire), {})
    values = {**context.values, **extra}
    argv = [filled(part, values) for part in template.argv]
    if any(len(part.encode()) > MAX_ARGUMENT_BYTES for part in argv):
        raise InstructionTooLongError(f"an argument is longer than {MAX_ARGUMENT_BYTES} bytes")
    files = [part for path, text in sorted(template.files.items()) for part in (path, filled(text, values))]
    source = values["instruction_file"] if template.stdin == "instruction" else "/dev/null"
    line = f'{_START}exec "$@"' if attached else f'{_START}exec "$@" < {source}'
    start = ("sh", "-c", line, "start", str(len(files) // 2), *files)
    return (*start, *argv), {name: filled(text, values) for name, text in sorted(template.env.items())}
