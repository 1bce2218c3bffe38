"""The reference agent end to end without a sandbox: the scripted provider on a Unix socket, every family."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.adapters.shell.agent import CommandResult, ShellTask, Why, drive
from workers.adapters.shell.families import SPOKEN
from workers.rehearsal.process import RehearsalProcess
from workers.relay.wire.family import Family

TOKEN = "rehearsal-token"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("rehearsal") / "provider.sock"
    with RehearsalProcess("hello", socket_path=path, key=TOKEN):
        yield path


def task(provider: Path, family: Family, token: str = TOKEN) -> ShellTask:
    deadline = time.monotonic() + 60
    return ShellTask("Write hello.txt.", "rehearsal-1", family, provider, token, deadline, 500, "/workspace")


@pytest.mark.parametrize("family", list(SPOKEN))
def test_the_two_turn_task(family: Family, provider: Path) -> None:
    """The script's command is run as it stands, its last word ends the work."""
    ran: list[str] = []

    def run(command: str, limit_s: float) -> CommandResult:
        ran.append(command)
        return CommandResult(b"", 0, False)

    end = drive(task(provider, family), run, lambda: False)
    assert (end.why, end.turns, end.commands) == (Why.FINISHED, 2, 1)
    assert ran == ["echo hello > hello.txt"]
    assert [entry["text"] for entry in end.log] == [
        "I will write the file.",
        "Done: hello.txt holds the greeting.",
    ]


@pytest.mark.parametrize("family", list(SPOKEN))
def test_a_wrong_token_is_a_refusal(family: Family, provider: Path) -> None:
    """The token is what the provider checks, so it travels where each family looks for it."""
    end = drive(task(provider, family, "wrong"), lambda *_: CommandResult(b"", 0, False), lambda: False)
    assert (end.why, end.turns) == (Why.REFUSED, 0)
    assert end.detail.startswith("status 401")
