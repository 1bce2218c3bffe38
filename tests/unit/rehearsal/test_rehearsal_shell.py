"""A scripted command reaches the agent's own shell, whatever it is called and however it takes commands."""

from __future__ import annotations

from typing import Any

import pytest

from workers.rehearsal.asked import Tool
from workers.rehearsal.reply import ToolCall, ToolKind
from workers.rehearsal.shell import SHELL_NAMES, closing_command, in_text, named_call, shell_call


def _schema(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}
AS_LIST = ["bash", "-lc", "ls -la"]

SHAPES: dict[str, tuple[Tool, dict[str, Any]]] = {
    "bash": (Tool("bash", _schema(command=TEXT)), {"command": "ls -la"}),
    "claude": (
        Tool("Bash", _schema(["command"], command=TEXT, timeout={"type": "number"})),
        {"command": "ls -la"},
    ),
    "codex": (Tool("exec_command", _schema(["cmd"], cmd=TEXT)), {"cmd": "ls -la"}),
    "codex-list": (Tool("shell", _schema(["command"], command=LIST)), {"command": AS_LIST}),
    "gemini": (
        Tool("run_shell_command", {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}}),
        {"command": "ls -la"},
    ),
    "gemini-list": (Tool("shell", {"properties": {"commands": {"type": "ARRAY"}}}), {"commands": AS_LIST}),
    "nullable-list": (Tool("shell", _schema(command={"type": ["null", "array"]})), {"command": AS_LIST}),
    "script": (Tool("Run-Command", _schema(script=TEXT)), {"script": "ls -la"}),
    "no-schema": (Tool("terminal"), {"command": "ls -la"}),
    "strange-schema": (Tool("sh", {"properties": 7, "required": "x"}), {"command": "ls -la"}),
    "other-required": (
        Tool(
            "execute_bash",
            _schema(
                ["command", "risk", "why", "background", "tries", "env", "more", "limit"],
                command=TEXT,
                risk={"type": "string", "enum": ["LOW", "HIGH"]},
                why=TEXT,
                background={"type": "boolean"},
                tries={"type": "integer", "default": 2},
                env={"type": "object"},
                more=LIST,
                limit={"type": "number"},
            ),
        ),
        {
            "command": "ls -la",
            "risk": "LOW",
            "why": "rehearsal",
            "background": False,
            "tries": 2,
            "env": {},
            "more": [],
            "limit": 60,
        },
    ),
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_command_is_put_where_the_tool_takes_it(name: str) -> None:
    """Argument name and type follow the schema; other required arguments get plain values."""
    tool, arguments = SHAPES[name]
    assert shell_call([Tool("read_file"), tool], "ls -la") == ToolCall(tool.name, arguments)


def test_the_most_telling_name_wins_whatever_the_order() -> None:
    """`bash` before `exec`; among equal names the first one on offer."""
    found = shell_call([Tool("exec"), Tool("Bash"), Tool("bash")], "ls")
    assert found is not None and found.name == "Bash"


@pytest.mark.parametrize("name", SHELL_NAMES)
def test_every_name_of_the_table_is_found(name: str) -> None:
    """Also in capitals and with hyphens."""
    spelled = name.upper().replace("_", "-")
    assert shell_call([Tool(spelled)], "ls") == ToolCall(spelled, {"command": "ls"})


def test_openai_local_shell_and_codex_code_mode_are_called_in_their_own_way() -> None:
    """A list of words, and a program that calls the nested shell."""
    local = shell_call([Tool("local_shell", {}, ToolKind.LOCAL_SHELL)], "ls -la")
    assert local == ToolCall("local_shell", {"command": AS_LIST}, ToolKind.LOCAL_SHELL)
    code = shell_call([Tool("exec", {}, ToolKind.CODE, "functions")], 'echo "x"')
    program = 'text(await tools.exec_command({"cmd":"echo \\"x\\""}));'
    assert code == ToolCall("exec", {"input": program}, ToolKind.CODE, "functions")


def test_without_a_shell_there_is_no_call() -> None:
    """Tools that are no shell are left alone."""
    assert shell_call([], "ls") is None
    assert shell_call([Tool("finish"), Tool("bash_history")], "ls") is None


@pytest.mark.parametrize(
    ("opening", "text"),
    [
        ("Fix it.", "```bash\nls {x}\n```"),
        ("Answer with\n```mswea_bash_command\n...\n```", "```mswea_bash_command\nls {x}\n```"),
        ("<mswea_bash_command>...</mswea_bash_command>", "<mswea_bash_command>ls {x}</mswea_bash_command>"),
    ],
)
def test_agents_without_tools_read_the_command_in_their_own_form(opening: str, text: str) -> None:
    """mini-swe-agent names its form in its instructions; everybody else gets a bash fence."""
    assert in_text(opening, "ls {x}") == text


def test_an_agent_that_ends_by_a_command_is_told_so() -> None:
    """mini-swe-agent goes on asking until this command was run."""
    mark = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    assert closing_command(f"... finish with `echo {mark}`") == f"echo {mark}"
    assert closing_command("Fix it.") is None


def test_a_tool_is_called_by_its_name_or_the_end_of_it() -> None:
    """Agents put the name of a server before that of its tool; the exact name comes first."""
    desk, own = Tool("mcp__desk__add", {}), Tool("add", {}, namespace="desk")
    assert named_call([desk], "add", {"a": 1}) == ToolCall("mcp__desk__add", {"a": 1}, desk.kind)
    assert named_call([desk, own], "add", {}) == ToolCall("add", {}, own.kind, "desk")
    assert named_call([Tool("readd"), Tool("bash")], "add", {}).name == "add"
