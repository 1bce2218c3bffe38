"""`assize try`: why, every attempt, the evidence, verified while it is read and safe to look at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.home import Home
from tests.assets.services.databases import copy_home

TRY_KEYS = {
    "schema",
    "try",
    "screening",
    "agent",
    "pack",
    "task",
    "k",
    "of",
    "simulated",
    "visibility",
    "state",
    "outcome",
    "reason",
    "reruns",
    "interruptions",
    "attempts",
    "shown_attempt",
    "evidence",
    "trouble",
    "agent_claims",
}
ATTEMPT_KEYS = {
    "attempt",
    "number",
    "token",
    "state",
    "outcome",
    "reason",
    "phase",
    "rule",
    "decided_by",
    "suspect",
    "reward",
    "gradings",
    "checks_passed",
    "checks_total",
    "wall_ms",
    "phases",
    "claimed_ms",
    "ended_ms",
    "runtime",
    "spend",
    "model_calls",
    "manifest",
    "certificate",
    "bundle",
}


@pytest.fixture
def damaged(world: Any, tmp_path: Path) -> Iterator[Home]:
    """A copy of the seeded home that a test may damage."""
    yield copy_home(world.home.root, tmp_path / "copy")


def _blob(home: Home, data: dict[str, Any], path: str) -> Path:
    digest: str = next(one["sha256"] for one in data["evidence"] if one["path"] == path)
    return home.evidence / "sha256" / digest[:2] / digest[2:]


def test_the_first_lines_say_what_why_and_by_which_rule(cli: Any, world: Any) -> None:
    """Outcome, reason in words, deciding rule with its evidence, before anything else."""
    ran = cli("try", world.try_id("group/slow"))
    lines = ran.out.splitlines()
    assert lines[0] == "✗ failed (timeout)  stub@1 group/slow try 1 of 3, stub@1"
    assert lines[1].startswith("because     the agent was still working when its wall-clock cap")
    assert lines[2] == "decided by  rule wall-clock: agent_clock=wall, agent_clock_value=1000"
    assert "spend — (nothing metered)" in lines[3]


def test_every_attempt_stays_visible_with_number_and_certificate(cli: Any, world: Any) -> None:
    """A platform fault and its re-run are two rows; each has its own bundle."""
    ran = cli("try", world.try_id("flaky"))
    rows = [line.split() for line in ran.out.splitlines() if "Z  " in line]
    assert [row[:4] for row in rows] == [
        ["1", "void", "platform_fault", "engine_error"],
        ["2", "recorded", "passed", "all_checks_passed"],
    ]
    assert ran.out.count(".trybundle.json") == 3
    assert "attempt     2 (2 in all)" in ran.out


def test_evidence_files_are_listed_and_withheld_ones_marked(cli: Any, world: Any) -> None:
    """UI-19: the hidden tests stand in the list with their size only."""
    ran = cli("try", world.try_id("fix-login"))
    line = next(line for line in ran.out.splitlines() if "grader/tests.tar" in line)
    assert line.split(maxsplit=2)[2].strip() == "6 B   withheld (salted digest only)"


def test_json_is_stable(cli: Any, world: Any) -> None:
    """Programs rely on these members."""
    data = json.loads(cli("try", world.try_id("lost"), "--json").out)
    assert data["schema"] == "assize.try/1"
    assert set(data) == TRY_KEYS
    assert [set(one) for one in data["attempts"]] == [ATTEMPT_KEYS] * 3
    assert [one["number"] for one in data["attempts"]] == [1, 2, 3]
    assert data["attempts"][0]["decided_by"] == {"engine_error": "StubEngineError", "agent_started": False}
    hidden = [one["path"] for one in data["evidence"] if one["withheld"]]
    assert hidden == ["grader/tests.tar"]


def test_attempt_option_chooses_the_evidence(cli: Any, world: Any) -> None:
    """Each attempt has its own diff; the newest is the default."""
    slot = world.try_id("flaky")
    assert cli("try", slot, "--diff").out == "+attempt 2\n"
    assert cli("try", slot, "--attempt", "1", "--diff").out == "+attempt 1\n"
    ran = cli("try", slot, "--attempt", "3")
    assert (ran.code, ran.err.splitlines()[1]) == (2, "  next: its attempts: 1, 2")


def test_transcript_is_sanitised(cli: Any, world: Any) -> None:
    """Title changes, screen clearing and direction marks of an agent are shown, never obeyed; tabs stay."""
    out = cli("try", world.try_id("fix-login"), "--transcript").out
    assert "start\\x1b]0;title\\x07\\x1b[2Jred\tkept\ufffd\\u202e end\n" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert "no line end\n==> agent/stdout.txt" in out


def test_raw_prints_the_very_bytes(
    world: Any, hostile_output: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Only --raw passes control characters on, byte for byte."""
    with pytest.raises(SystemExit) as end:
        slot = world.try_id("fix-login")
        main(["--home", str(world.home.root), "try", slot, "--file", "agent/stdout.txt", "--raw"])
    assert end.value.code == 0
    assert capfdbinary.readouterr().out == hostile_output


def test_observations_are_indented_for_a_person(cli: Any, world: Any) -> None:
    """Canonical JSON is one line; a person gets it readable."""
    assert cli("try", world.try_id("fix-login"), "--observations").out == '{\n  "agent_started": true\n}\n'


def test_evidence_as_json(cli: Any, world: Any) -> None:
    """The text with path, role, size and digest; control characters are JSON escapes."""
    out = cli("try", world.try_id("fix-login"), "--transcript", "--json").out
    data = json.loads(out)
    assert data["schema"] == "assize.try-evidence/1"
    assert [set(one) for one in data["files"]] == [{"path", "role", "size", "sha256", "text"}] * 2
    assert "\x1b]0;title\x07" in data["files"][1]["text"]
    assert not {"\x1b", "\u202e"} & set(out)


def test_an_empty_file_says_so_on_standard_error(cli: Any, world: Any) -> None:
    """Nothing on standard output is explained."""
    ran = cli("try", world.try_id("fix-login"), "--grader")
    assert (ran.code, ran.out) == (0, "")
    assert "grader/empty.txt is empty" in ran.err


def test_absent_and_withheld_evidence(cli: Any, world: Any) -> None:
    """What is not there names what is; what is withheld is never shown."""
    slot = world.try_id("fix-login")
    ran = cli("try", slot, "--report")
    assert ran.code == 2
    assert "has no report evidence" in ran.err
    assert "it has: agent/stderr.txt" in ran.err
    ran = cli("try", slot, "--file", "grader/tests.tar", "--raw")
    assert (ran.code, ran.out) == (2, "")
    assert "is withheld" in ran.err


@pytest.mark.parametrize("options", [["--diff"], ["--diff", "--raw"], ["--diff", "--json"]])
def test_altered_evidence_is_refused_before_anything_is_shown(
    cli: Any, world: Any, damaged: Home, options: list[str]
) -> None:
    """A changed blob is an error with exit 1, and not one byte of it is printed."""
    slot = world.try_id("fix-login")
    data = json.loads(cli("try", slot, "--json", home=damaged.root).out)
    _blob(damaged, data, "workspace/diff.patch").write_bytes(b"+attempt 9\n")
    ran = cli("try", slot, *options, home=damaged.root)
    assert (ran.code, ran.out) == (1, "")
    assert "was altered in the store [evidence-altered]" in ran.err


def test_absent_evidence_is_undecided_not_a_crash(cli: Any, world: Any, damaged: Home) -> None:
    """Without its evidence a try is still shown; asking for the evidence is exit 4."""
    shutil.rmtree(damaged.evidence)
    slot = world.try_id("fix-login")
    ran = cli("try", slot, home=damaged.root)
    assert ran.code == 0
    assert "evidence of attempt 1: its manifest is not in" in ran.out
    assert json.loads(cli("try", slot, "--json", home=damaged.root).out)["evidence"] is None
    assert cli("try", slot, "--diff", home=damaged.root).code == 4


def test_a_try_that_never_ran_says_so(cli: Any, world: Any) -> None:
    """No attempt, no evidence, no crash."""
    listed = json.loads(cli("tries", world.open, "--json").out)
    ran = cli("try", listed["tries"][0]["try"])
    assert ran.code == 0
    assert ran.out.startswith("· planned  ")
    assert ran.out.endswith("No attempt yet.\n")
    assert cli("try", listed["tries"][0]["try"], "--diff").code == 2


@pytest.mark.parametrize(
    "options", [["--diff", "--grader"], ["--raw"], ["--raw", "--diff", "--json"], ["--file", "x", "--report"]]
)
def test_options_that_exclude_each_other(cli: Any, world: Any, options: list[str]) -> None:
    """One sentence, exit 2."""
    ran = cli("try", world.try_id("fix-login"), *options)
    assert (ran.code, ran.out, ran.err.count("error: ")) == (2, "", 1)
