"""From a profile and one try to a command: pure, words stay words, files arrive as they are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.agents.profile import parse_profile
from workers.adapters.packed import MAX_ARGUMENT_BYTES, InstructionTooLongError, TryContext, plan

GOOD = (Path(__file__).parents[2] / "assets" / "agents" / "profiles" / "good.toml").read_text("utf-8")
VALUES = {
    "model": "m-1",
    "model_small": "m-2",
    "url": "http://127.0.0.1:8080",
    "token": "the-token",
    "bundle": "/opt/agent",
    "home": "/assize/home",
    "workspace": "/w",
    "out": "/o",
    "instruction": 'say "$(id)" and {{model}}\n',
    "instruction_file": "/assize/instruction.md",
    "mcp_config": "/assize/mcp.json",
    "output_tokens": "512",
}


def planned(
    text: str = GOOD, wire: str = "openai-chat", **changes: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    launch = parse_profile(text, "sample").launch
    return plan(launch, TryContext({**VALUES, **changes}, wire))


def test_every_placeholder_gets_its_value_once() -> None:
    """The route follows the format; a placeholder inside of a value stays what it is."""
    argv, environment = planned()
    assert argv[-4:] == ("/opt/agent/app/bin/sample", "--model", "openai/m-1", 'say "$(id)" and {{model}}\n')
    assert environment == {"SAMPLE_SMALL": "m-2", "SAMPLE_MAX": "512", "SAMPLE_TOKEN": "the-token"}
    assert planned(wire="anthropic-messages")[0][-2] == "anthropic/m-1"


def test_the_token_is_in_no_argument() -> None:
    """Arguments are evidence that is published; the environment of a process is not."""
    assert not any("the-token" in part for part in planned()[0])


@pytest.mark.parametrize("stdin", ["nothing", "instruction"])
def test_the_start_writes_the_files_and_keeps_the_words(tmp_path: Path, stdin: str) -> None:
    """Run by a real shell: content, words and standard input arrive byte by byte."""
    instruction = tmp_path / "instruction.md"
    instruction.write_text("the task\n")
    text = GOOD.replace('stdin = "nothing"', f'stdin = "{stdin}"')
    argv, _ = planned(text, instruction_file=str(instruction))
    program = tmp_path / "show.py"
    program.write_text("import json, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))")
    command = [part.replace("/opt/agent/app/bin/sample", "python3") for part in argv]
    command.insert(command.index("python3") + 1, str(program))
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        command, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    words, read = json.loads(done.stdout)
    assert words == ["--model", "openai/m-1", VALUES["instruction"]]
    assert read == ("the task\n" if stdin == "instruction" else "")
    wanted = '{"base": "http://127.0.0.1:8080/v1", "note": "{{not a placeholder}} $HOME"}'
    assert (home / ".sample" / "config.json").read_text() == wanted
    assert (home / "plain").read_text() == "x"


def test_an_instruction_that_is_too_long_for_an_argument_is_refused() -> None:
    """In bytes, not in characters."""
    planned(instruction="é" * (MAX_ARGUMENT_BYTES // 2))
    with pytest.raises(InstructionTooLongError):
        planned(instruction="é" * (MAX_ARGUMENT_BYTES // 2 + 1))


def test_an_agent_that_is_talked_to_keeps_its_standard_input(tmp_path: Path) -> None:
    """Run by a real shell: what is written to it arrives, not the instruction."""
    launch = parse_profile(GOOD, "sample").launch
    argv, _ = plan(launch, TryContext(VALUES, "openai-chat"), attached=True)
    command = [part.replace("/opt/agent/app/bin/sample", "cat") for part in argv]
    command = command[: command.index("cat") + 1]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, input=b"a line\n", capture_output=True, check=True)
    assert done.stdout == b"a line\n" and (tmp_path / "plain").exists()
