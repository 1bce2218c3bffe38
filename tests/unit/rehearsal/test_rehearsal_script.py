"""Scripts are strict: every bad one is refused with one sentence, every one we show or ship loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workers.rehearsal.errors import ScriptError
from workers.rehearsal.script import BUNDLED, find_script, load_script, parse_script

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "tests" / "assets" / "rehearsal"
PAGE = ROOT / "docs" / "rehearsal.md"

REFUSALS = {
    "conversation-no-turns": "conversation[0].turn = []: at least one is needed",
    "conversation-when": "conversation[0].when = '': string should have at least 1 character",
    "call-and-run": "turn[0]: a turn runs a command or calls a tool, not both",
    "call-name": "turn[0].call.tool = 'a b': string should match pattern '^[A-Za-z0-9_.-]{1,128}$'",
    "delay-too-long": "turn[0].fault.delay_ms = 600001: input should be less than or equal to 600000",
    "empty-turn": "turn[0]: a turn says something, runs something, or both",
    "fault-empty": (
        "turn[0].fault: a fault is exactly one of status, cut_after_events, delay_ms, error_in_stream"
    ),
    "fault-retry-alone": "turn[0].fault: retry_after_s goes with status",
    "fault-status": "turn[0].fault.status = 200: input should be greater than or equal to 400",
    "fault-stream-false": "turn[0].fault.error_in_stream = False: input should be True",
    "fault-two-kinds": (
        "turn[0].fault: a fault is exactly one of status, cut_after_events, delay_ms, error_in_stream"
    ),
    "fault-unknown": "turn[0].fault.hang is not a known key",
    "finish": "turn[0].finish = 'tool': input should be 'stop' or 'length'",
    "format": "format = 'assize.rehearsal/2': input should be 'assize.rehearsal/1'",
    "length-with-run": 'turn[0]: finish = "length" goes with a turn that only says something',
    "models-empty": "models = []: at least one is needed",
    "no-format": "format is missing",
    "no-turns": "the whole file: a script needs at least one [[turn]] or [[conversation]]",
    "not-toml": "not valid TOML: Illegal character '\\n' (at line 1, column 29)",
    "run-number": "turn[0].run = 7: input should be a valid string",
    "say-empty": "turn[0].say = '': string should have at least 1 character",
    "times-without-fault": "turn[0]: times counts a fault, and this turn has none",
    "times-zero": "turn[0].times = 0: input should be greater than or equal to 1",
    "unknown-key": "turn[0].shout is not a known key",
    "usage-cached": "turn[0].usage: cached (2) is a part of input (1) and cannot exceed it",
    "usage-missing": "turn[0].usage.output is missing",
    "usage-negative": "turn[0].usage.input = -1: input should be greater than or equal to 0",
    "usage-reasoning": "turn[0].usage: reasoning (2) is a part of output (1) and cannot exceed it",
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_a_bad_script_is_refused_with_one_sentence(name: str) -> None:
    """The sentence names the file, the key, its value, and what is wrong."""
    with pytest.raises(ScriptError) as caught:
        load_script(ASSETS / f"bad-{name}.toml")
    assert str(caught.value) == f"script bad-{name}.toml: {REFUSALS[name]}"


def test_every_bad_script_has_a_sentence() -> None:
    """No asset is left out of the table."""
    assert {path.stem.removeprefix("bad-") for path in ASSETS.glob("bad-*.toml")} == set(REFUSALS)


def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Missing files and bytes that are not UTF-8 are script errors, not tracebacks."""
    (tmp_path / "latin.toml").write_bytes(b"say = '\xe9'")
    for name in ("missing.toml", "latin.toml"):
        with pytest.raises(ScriptError, match=f"script {name}: .* cannot be read as text"):
            load_script(tmp_path / name)


def test_the_bundled_scripts_load() -> None:
    """`hello` makes hello.txt in its first turn, `hello-edit` says it; `coding-core` writes nothing."""
    scripts = {path.stem: load_script(path) for path in BUNDLED.glob("*.toml")}
    assert set(scripts) == {"hello", "hello-edit", "coding-core"}
    assert [turn.run for turn in scripts["hello-edit"].turn or ()] == [None]
    assert [turn.run for turn in scripts["hello"].turn or ()] == ["echo hello > hello.txt", None]
    assert [turn.run for turn in scripts["coding-core"].turn or ()] == ["ls -la", None]


def test_a_bundled_script_goes_by_its_name(tmp_path: Path) -> None:
    """Only a bare name that is bundled is looked up; everything else is a path as it stands."""
    assert find_script("hello") == BUNDLED / "hello.toml"
    for value in ("hello.toml", "./hello", "../scripts/hello", "unheard-of", str(tmp_path)):
        assert find_script(value) == Path(value)


def test_the_first_conversation_that_matches_wins() -> None:
    """`when` is a part of the task; the top-level turns serve what no conversation matches."""
    script = parse_script(
        'format = "assize.rehearsal/1"\n[[turn]]\nsay = "default"\n'
        '[[conversation]]\nwhen = "ab"\n[[conversation.turn]]\nsay = "first"\n'
        '[[conversation]]\nwhen = "b"\n[[conversation.turn]]\nsay = "second"\n',
        "s",
    )
    said = {task: (script.turns_for(task) or ())[0].say for task in ("xabx", "b", "c")}
    assert said == {"xabx": "first", "b": "second", "c": "default"}


def test_every_script_of_the_page_loads() -> None:
    """docs/rehearsal.md shows only scripts that work."""
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    for number, block in enumerate(blocks):
        parse_script(block, f"script {number} of the page")
