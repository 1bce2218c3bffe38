"""The reference agent's loop: every end it can come to, its counts and its log. No clock is waited for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from workers.adapters.shell.agent import CommandResult, ShellEnd, ShellTask, Why, drive
from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.errors import UnspokenFamilyError
from workers.adapters.shell.transport import Answer
from workers.errors import ContainerGoneError
from workers.relay.wire.family import Family

TOKEN = "token-of-the-lane"
TASK = ShellTask(
    instruction="Write hello.txt.",
    model="m-1",
    family=Family.OPENAI_CHAT,
    socket=Path("relay.sock"),
    token=TOKEN,
    deadline=1000.0,
    max_output_tokens=None,
    workdir="/workspace",
)


def wants(*commands: str, text: str = "") -> Answer:
    calls = [
        {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        for n, command in enumerate(commands)
    ]
    message = {"content": text, "tool_calls": calls}
    return Answer(200, {}, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})


def says(text: str, finish: str = "stop") -> Answer:
    return Answer(200, {}, {"choices": [{"message": {"content": text}, "finish_reason": finish}]})


@dataclass
class World:
    """The model, the sandbox and the clock of one run; a command takes `command_s`."""

    script: list[Answer]
    result: CommandResult = field(default_factory=lambda: CommandResult(b"done\n", 0, False))
    command_s: float = 1.0
    stop_after: int | None = None
    now_s: float = 0.0
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    ran: list[tuple[str, float]] = field(default_factory=list)

    def post(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds) -> Answer:
        self.asked.append(json.loads(json.dumps(body)))
        self.headers.append(headers)
        return self.script.pop(0)

    def run(self, command: str, limit_s: float) -> CommandResult:
        self.ran.append((command, limit_s))
        self.now_s += min(self.command_s, limit_s)
        return self.result

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def stop(self) -> bool:
        return self.stop_after is not None and len(self.ran) >= self.stop_after

    def drive(self, task: ShellTask = TASK) -> ShellEnd:
        return drive(task, self.run, self.stop, link=self, now=lambda: self.now_s, sleep=self.sleep)


def test_a_model_that_works_and_finishes() -> None:
    """Commands run in order, their results are told, and the answer without one is the end."""
    world = World([wants("ls", "pwd", text="Look."), wants("true"), says("Done.")])
    end = world.drive()
    assert (end.why, end.turns, end.commands) == (Why.FINISHED, 3, 3)
    assert [command for command, _ in world.ran] == ["ls", "pwd", "true"]
    told = [message["content"] for message in world.asked[-1]["messages"] if message["role"] == "tool"]
    assert told == ["exit code: 0\ndone\n"] * 3
    assert {headers["authorization"] for headers in world.headers} == {f"Bearer {TOKEN}"}


def test_the_log_tells_the_run() -> None:
    """One entry per turn: text, finish, commands with exit code and size."""
    end = World([wants("ls", text="Look."), says("Done.")], CommandResult(b"12345", 7, False)).drive()
    ran = {"command": "ls", "exitCode": 7, "timedOut": False, "outputBytes": 5}
    assert end.log == (
        {"turn": 1, "text": "Look.", "finish": "tool_calls", "commands": [ran], "unusable": []},
        {"turn": 2, "text": "Done.", "finish": "stop", "commands": [], "unusable": []},
    )


def test_the_first_request_holds_task_and_place() -> None:
    """The instruction is the first message as it is; the folder is in the system prompt."""
    world = World([says("No.")])
    world.drive()
    system, user = world.asked[0]["messages"]
    assert user == {"role": "user", "content": TASK.instruction}
    assert TASK.workdir in system["content"]


def test_a_last_answer_cut_at_the_limit_is_no_proper_finish() -> None:
    """It may have been about to call."""
    end = World([says("I would now", "length")]).drive()
    assert (end.why, end.turns) == (Why.LENGTH, 1)


def test_a_refusal_ends_the_run_with_its_reason() -> None:
    """Money, steps or policy: what was done until then stays counted."""
    body = {"error": {"message": "no money left", "type": "assize_relay", "code": "cap_reached"}}
    end = World([wants("ls"), Answer(402, {}, body)]).drive()
    assert (end.why, end.turns, end.commands) == (Why.REFUSED, 1, 1)
    assert end.detail == "status 402 (cap_reached): no money left"


def test_a_provider_that_does_not_recover() -> None:
    """Seven answers without use."""
    end = World([Answer(529, {}, None)] * 7).drive()
    assert (end.why, end.turns) == (Why.PROVIDER, 0)


def test_the_retries_of_one_call_do_not_count_against_the_next() -> None:
    """Six in a row is the limit, not six in all."""
    bad = Answer(500, {}, None)
    end = World([bad] * 6 + [wants("ls")] + [bad] * 6 + [says("Done.")]).drive()
    assert (end.why, end.turns) == (Why.FINISHED, 2)


def test_a_command_has_two_minutes_or_what_is_left() -> None:
    """And the run ends when nothing is left, with the command that used it up in the log."""
    task = replace(TASK, deadline=150.0)
    world = World([wants("a"), wants("b"), says("never asked for")], command_s=1000.0)
    end = world.drive(task)
    assert world.ran == [("a", 120.0), ("b", 30.0)]
    assert (end.why, end.turns, end.commands) == (Why.DEADLINE, 2, 2)
    assert [one["command"] for entry in end.log for one in entry["commands"]] == ["a", "b"]


def test_a_timeout_is_told_with_the_time_that_the_command_had() -> None:
    """The model can plan by it."""
    world = World([wants("sleep 500"), says("Done.")], CommandResult(b"", None, True))
    assert world.drive().log[0]["commands"][0]["timedOut"] is True
    assert world.asked[1]["messages"][-1]["content"] == "no end within 120 seconds\n(no output)"


def test_a_cancel_stops_between_two_commands_of_an_answer() -> None:
    """The second is not run; the first is in the log."""
    end = World([wants("a", "b")], stop_after=1).drive()
    assert (end.why, end.turns, end.commands) == (Why.STOPPED, 1, 1)
    assert [one["command"] for one in end.log[0]["commands"]] == ["a"]


def test_a_cancel_before_the_first_call() -> None:
    """Nothing is asked."""
    world = World([], stop_after=0)
    end = world.drive()
    assert (end.why, end.turns, end.log, world.asked) == (Why.STOPPED, 0, (), [])


def test_unusable_calls_are_answered_and_logged() -> None:
    """The model gets another chance, and the log says what was wrong."""
    message = {"tool_calls": [{"id": "c", "function": {"name": "python", "arguments": "{}"}}]}
    odd = Answer(200, {}, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    end = World([odd, says("Then not.")]).drive()
    assert (end.why, end.commands) == (Why.FINISHED, 0)
    assert end.log[0]["unusable"] == ["there is no tool 'python'; the only tool is bash"]


def test_trouble_of_the_sandbox_goes_through() -> None:
    """What it means is for the worker to say."""

    def gone(command: str, limit_s: float) -> CommandResult:
        raise ContainerGoneError("exec_create", "NotFound", "no such container")

    world = World([wants("ls")])
    with pytest.raises(ContainerGoneError):
        drive(TASK, gone, world.stop, link=world, now=lambda: 0.0, sleep=world.sleep)


def test_a_family_that_is_not_spoken_is_refused_before_any_call() -> None:
    """A typed error, not a try that fails."""
    world = World([])
    with pytest.raises(UnspokenFamilyError):
        world.drive(replace(TASK, family=Family.OPENAI_RESPONSES))
    assert world.asked == []


def test_the_token_is_in_no_repr_and_no_log() -> None:
    """It is worth nothing after the try, and has no place in texts before."""
    end = World([wants("ls"), says("Done.")]).drive()
    assert TOKEN not in repr(TASK) and TOKEN not in repr(end)
