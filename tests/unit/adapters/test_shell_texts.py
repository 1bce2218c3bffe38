"""What the model reads of a command, and how the reference agent's own log stays small."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import canonical
from workers.adapters.shell.calls import MOST_COMMANDS, Command, Turn
from workers.adapters.shell.journal import MOST_ENTRIES, TEXT_LIMIT_BYTES, Journal, Ran
from workers.adapters.shell.texts import OUTPUT_LIMIT_BYTES, CommandResult, shortened, shown, system_prompt

SHOWN = {
    "success": (CommandResult(b"a\nb\n", 0, False), "exit code: 0\na\nb\n"),
    "failure": (CommandResult(b"no such file", 2, False), "exit code: 2\nno such file"),
    "no output": (CommandResult(b"", 0, False), "exit code: 0\n(no output)"),
    "timed out": (CommandResult(b"waiting", None, True), "no end within 30 seconds\nwaiting"),
    "end unknown": (CommandResult(b"", None, False), "exit code: unknown\n(no output)"),
    "not UTF-8": (CommandResult(b"\xff\xfeok", 0, False), "exit code: 0\n\ufffd\ufffdok"),
    "NUL": (CommandResult(b"a\0b", 0, False), "exit code: 0\na\ufffdb"),
}


@pytest.mark.parametrize("name", list(SHOWN))
def test_what_the_model_is_told_of_a_command(name: str) -> None:
    """The exit code first, then the output; bytes that are no text are replaced."""
    result, text = SHOWN[name]
    assert shown(result, 30.0) == text


def test_long_output_keeps_head_and_tail() -> None:
    """16 KiB at most behind the first line, and the middle line says exactly how much is missing."""
    output = b"first\n" + b"x" * 100_000 + b"\nlast"
    head, body = shown(CommandResult(output, 1, False), 30.0).split("\n", 1)
    assert head == "exit code: 1"
    assert len(body.encode()) <= OUTPUT_LIMIT_BYTES
    assert body.startswith("first\n") and body.endswith("\nlast")
    mark = next(line for line in body.splitlines() if line.startswith("["))
    missing = int(mark.split()[0].removeprefix("["))
    assert missing + len(body) - len(mark) - 2 == len(output)


@given(st.text(max_size=400), st.integers(100, 300))
def test_a_shortened_text_fits_and_can_be_encoded(text: str, limit_bytes: int) -> None:
    """No character is cut in two, and what fits stays as it was."""
    found = shortened(text, limit_bytes)
    assert len(found.encode()) <= limit_bytes
    if len(text.encode()) <= limit_bytes:
        assert found == text


def test_half_a_surrogate_pair_does_not_reach_the_log() -> None:
    """A model's text may hold one; evidence is UTF-8."""
    assert shortened("a\ud83d", 100) == "a?"


def test_the_prompt_names_folder_and_rules() -> None:
    """Alone, where, fresh shells, how to end."""
    prompt = system_prompt("/workspace")
    for words in ("alone", "/workspace", "fresh shell", "120 seconds", "without running a command"):
        assert words in prompt


def test_log_entries_are_bounded_plain_data() -> None:
    """Texts at 8 KiB, sizes instead of outputs; canonical JSON takes it as it is."""
    journal = Journal()
    long = "\ud83d" + "y" * 50_000
    turn = Turn(long, (Command("1", long),), False, "stop", unusable=(long,) * (MOST_COMMANDS + 5))
    journal.add(1, turn, [Ran(turn.commands[0], CommandResult(b"z" * 99, 3, False))])
    (entry,) = journal.entries()
    assert len(entry["text"].encode()) <= TEXT_LIMIT_BYTES
    (ran,) = entry["commands"]
    assert len(ran.pop("command").encode()) <= TEXT_LIMIT_BYTES
    assert ran == {"exitCode": 3, "timedOut": False, "outputBytes": 99}
    assert len(entry["unusable"]) == MOST_COMMANDS
    assert json.loads(canonical.encode(entry)) == entry


def test_the_log_has_room_for_so_many_turns() -> None:
    """Later turns are counted elsewhere, and not kept."""
    journal = Journal()
    for number in range(1, MOST_ENTRIES + 10):
        journal.add(number, Turn("", (), True, None), [])
    kept = journal.entries()
    assert len(kept) == MOST_ENTRIES and kept[-1]["turn"] == MOST_ENTRIES
