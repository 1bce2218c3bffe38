"""How a command of the script reaches the agent's own shell: by the tools on offer, else by the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from workers.rehearsal.asked import Tool
from workers.rehearsal.reply import ToolCall, ToolKind, compact

SHELL_NAMES: Final = (
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "local_shell",
    "run_shell_command",
    "run_command",
    "run_bash",
    "run_terminal_cmd",
    "run_in_terminal",
    "execute_bash",
    "execute_command",
    "execute_shell_command",
    "terminal",
    "exec",
    "execute",
    "sh",
)
"""Names under which agents offer their shell, most telling first; compared without case, `-` as `_`."""

COMMAND_ARGUMENTS: Final = ("command", "cmd", "commands", "script")

TEXT_MODES: Final = (
    ("<mswea_bash_command>", "<mswea_bash_command>{command}</mswea_bash_command>"),
    ("```mswea_bash_command", "```mswea_bash_command\n{command}\n```"),
)
"""Mark in an agent's instructions -> how it reads commands from the text (mini-swe-agent 2)."""

PLAIN_FENCE: Final = "```bash\n{command}\n```"

CLOSING_COMMANDS: Final = (
    ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
)
"""Mark in an agent's instructions -> the command by which it wants to be told that the work is done."""

_PARTS: Final = re.compile(r"__|[.:/]")
"""How agents join the name of a server to that of its tool."""
_PLAIN_VALUES: Final[Mapping[str, Any]] = {"boolean": False, "integer": 60, "number": 60, "array": []}


def shell_call(tools: Iterable[Tool], command: str) -> ToolCall | None:
    """The call that runs `command` with the most telling shell tool on offer; None without one."""
    known = {_normal(tool.name): tool for tool in reversed(tuple(tools))}
    tool = next((known[name] for name in SHELL_NAMES if name in known), None)
    if tool is None:
        return None
    if tool.kind is ToolKind.LOCAL_SHELL:
        arguments: dict[str, Any] = {"command": ["bash", "-lc", command]}
    elif tool.kind is ToolKind.CODE:
        arguments = {"input": f"text(await tools.exec_command({compact({'cmd': command})}));"}
    else:
        arguments = _arguments(tool.schema, command)
    return ToolCall(tool.name, arguments, tool.kind, tool.namespace)


def named_call(tools: Iterable[Tool], name: str, arguments: Mapping[str, Any]) -> ToolCall:
    """The call of the tool `name`, or of one whose name ends with it as a part of its own.

    Where none is on offer the name is called as it stands: some agents offer their tools later.
    """
    known = tuple(tools)
    exact = [tool for tool in known if tool.name == name]
    for tool in exact or [tool for tool in known if _PARTS.split(tool.name)[-1] == name]:
        return ToolCall(tool.name, dict(arguments), tool.kind, tool.namespace)
    return ToolCall(name, dict(arguments), ToolKind.FUNCTION, None)


def in_text(opening: str, command: str) -> str:
    """`command` as an agent without tools reads it; `opening` holds that agent's instructions."""
    form = next((form for mark, form in TEXT_MODES if mark in opening), PLAIN_FENCE)
    return form.format(command=command)


def closing_command(opening: str) -> str | None:
    """The command that ends the work of an agent whose instructions ask for one, else None."""
    return next((command for mark, command in CLOSING_COMMANDS if mark in opening), None)


def _normal(name: str) -> str:
    return name.lower().replace("-", "_")


def _arguments(schema: Mapping[str, Any], command: str) -> dict[str, Any]:
    properties = schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    chosen = next((name for name in COMMAND_ARGUMENTS if name in fields), COMMAND_ARGUMENTS[0])
    wants_list = _type(fields.get(chosen)) == "array"
    arguments: dict[str, Any] = {chosen: ["bash", "-lc", command] if wants_list else command}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments:
            arguments[name] = _filling(fields.get(name))
    return arguments


def _type(schema: object) -> str | None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    return kind.lower() if isinstance(kind, str) else None


def _filling(schema: object) -> Any:
    """A plain value for another required argument: its default, its first choice, or one of its type."""
    if isinstance(schema, dict):
        if "default" in schema:
            return schema["default"]
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return choices[0]
    kind = _type(schema)
    if kind == "object":
        return {}
    return _PLAIN_VALUES.get(kind or "", "rehearsal")
