"""status and tries: what is listed, filtered, printed in which form (CLI-1 .. CLI-3, CLI-10)."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.assets.services.databases import environment_of

STATUS_KEYS = {
    "screening",
    "agent",
    "pack",
    "state",
    "visibility",
    "planned",
    "recorded",
    "passed",
    "failed",
    "uncountable",
    "cancelled",
    "open",
    "running",
    "reruns",
    "interruptions",
    "spend_nusd",
    "platform_spend_nusd",
    "cap_nusd",
    "created_ms",
    "closed_ms",
}
DETAIL_KEYS = STATUS_KEYS | {
    "schema",
    "agent_digest",
    "pack_digest",
    "requested_by",
    "funded_by",
    "conditions",
    "comparability",
    "stop_reason",
    "started_ms",
    "rerun_limit",
    "ended_attempts",
    "certified_attempts",
    "bundle",
    "median_wall_ms",
    "last_event_ms",
    "now_ms",
    "runs_now",
    "providers",
    "start_hours",
    "start_window_ms",
    "running_tries",
    "attention",
}
TRY_KEYS = {
    "try",
    "task",
    "k",
    "state",
    "outcome",
    "reason",
    "reruns",
    "interruptions",
    "attempts",
    "phase",
    "reward",
    "checks_passed",
    "checks_total",
    "wall_ms",
    "rule",
    "claimed_ms",
    "ended_ms",
    "certificate",
    "manifest",
}


def test_status_lists_newest_first_with_all_counts(cli: Any, world: Any) -> None:
    """Each screening is one row of facts; the newer one comes first."""
    ran = cli("status", "--json")
    data = json.loads(ran.out)
    assert (ran.code, ran.err, data["schema"]) == (0, "", "assize.status-list/1")
    newer, older = data["screenings"]
    assert [newer["screening"], older["screening"]] == [world.open, world.done]
    assert set(older) == STATUS_KEYS
    counts = {name: older[name] for name in ("planned", "recorded", "passed", "failed", "uncountable")}
    assert counts == {"planned": 15, "recorded": 12, "passed": 5, "failed": 7, "uncountable": 3}
    assert (older["reruns"], older["open"], older["state"], newer["open"]) == (9, 0, "partial", 3)


def test_status_table_prints_ids_that_paste_into_the_next_command(cli: Any, world: Any) -> None:
    """CLI-10: the whole id stands in the table; money has four decimals."""
    lines = cli("status").out.splitlines()
    assert lines[0].split()[:4] == ["id", "agent", "pack", "state"]
    assert lines[2].split()[0] == world.done
    assert lines[2].split()[-1] == "$0.0000"


def test_status_of_one_screening_by_prefix_in_any_case(cli: Any, world: Any) -> None:
    """The detail names state, parties, attention and the next command; the id may be shortened."""
    ran = cli("status", world.done.lower()[:25])
    assert ran.code == 0
    assert f"{world.done}  stub@1 on stub@1" in ran.out
    assert "15 planned: 12 recorded (5 passed, 7 failed), 3 uncountable, 0 cancelled, 0 open" in ran.out
    assert "requested by stub, funded by stub" in ran.out
    assert ran.out.count("platform_fault (engine_error)") == 3
    assert "1 re-runs after platform faults, now passed (all_checks_passed)" in ran.out
    assert f"score {world.done}" in ran.out


def test_status_of_an_open_screening_says_that_nobody_runs_it(cli: Any, world: Any) -> None:
    """No score before the close, and a hint how to go on."""
    ran = cli("status", world.open)
    assert "no score before the screening closes" in ran.out
    assert "no process runs it, the same screen command resumes" in ran.out
    assert f"score {world.open}" not in ran.out


def test_status_detail_json_is_stable(cli: Any, world: Any) -> None:
    """Programs rely on these members."""
    data = json.loads(cli("status", world.done, "--json").out)
    assert data["schema"] == "assize.status/1"
    assert set(data) == DETAIL_KEYS
    assert (data["certified_attempts"], data["ended_attempts"]) == (24, 24)
    assert data["median_wall_ms"] == 61_500


def test_watch_of_a_closed_screening_ends_at_once_in_plain_lines(cli: Any, world: Any) -> None:
    """Without a terminal every changed row is one line, and closed means done."""
    ran = cli("status", world.done, "--watch")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 1
    assert f"id {world.done}  " in ran.out
    assert "state partial" in ran.out
    line = json.loads(cli("status", world.done, "--watch", "--json").out)
    assert line["screenings"][0]["state"] == "partial"


def test_empty_home_says_so_and_creates_nothing(cli: Any, tmp_path: Any) -> None:
    """Reading never makes a home; an empty list is a sentence, an empty array, or a header."""
    home = tmp_path / "none"
    ran = cli("status", home=home)
    assert ran.code == 0
    assert ran.out.startswith("No screenings yet. Next: assize screen ")
    assert json.loads(cli("status", "--json", home=home).out)["screenings"] == []
    assert cli("status", "-o", "csv", home=home).out.count("\n") == 1
    assert cli("status", "--watch", home=home).out.startswith("No screenings yet.")
    assert not home.exists()


def test_tries_shows_the_newest_attempt_of_each(cli: Any, world: Any) -> None:
    """id, task, k, state, outcome, reason, attempts, reward, wall; a dash where nothing is."""
    ran = cli("tries", world.done)
    lines = ran.out.splitlines()
    assert lines[0].split() == ["id", "task", "k", "state", "outcome", "reason", "attempts", "reward", "wall"]
    assert len(lines) == 16
    lost = next(line for line in lines if "lost" in line)
    assert lost.split()[2:] == ["1", "uncountable", "platform_fault", "engine_error", "3", "—", "1:01"]


def test_tries_json_is_stable(cli: Any, world: Any) -> None:
    """Programs rely on these members."""
    data = json.loads(cli("tries", world.done, "-o", "json").out)
    assert (data["schema"], data["screening"]) == ("assize.tries/1", world.done)
    assert all(set(one) == TRY_KEYS for one in data["tries"])


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--task", "fix-login"], 3),
        (["--task", "slow"], 3),
        (["--task", "gro", "--task", "flaky"], 6),
        (["--state", "uncountable"], 3),
        (["--outcome", "failed"], 7),
        (["--reason", "timeout"], 3),
        (["--fault"], 6),
        (["--fault", "--outcome", "passed"], 3),
        (["--outcome", "not_evaluable"], 0),
    ],
)
def test_tries_filters(cli: Any, world: Any, options: list[str], count: int) -> None:
    """Each filter alone and together; task names may be the last part or a unique beginning."""
    data = json.loads(cli("tries", world.done, "--json", *options).out)
    assert len(data["tries"]) == count


def test_tries_without_a_match_says_so(cli: Any, world: Any) -> None:
    """An empty result is a sentence with the next command, not an empty screen."""
    ran = cli("tries", world.done, "--outcome", "not_evaluable")
    assert (ran.code, ran.out.startswith(f"Screening {world.done} has no such tries.")) == (0, True)


def test_csv_has_the_names_and_raw_values_of_json(cli: Any, world: Any) -> None:
    """CSV is for programs: units in the names, nothing for what is missing."""
    text = cli("tries", world.done, "--task", "lost", "-o", "csv", "--columns", "id,k,reward,wall").out
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["try", "k", "reward", "wall_ms"]
    assert rows[1][1:] == ["1", "", "61500"]


def test_columns_come_in_the_order_asked_for_and_without_header(cli: Any, world: Any) -> None:
    """CLI-3."""
    ran = cli("tries", world.done, "--task", "lost", "--columns", "k,task,rule", "--no-header")
    assert next(line.split() for line in ran.out.splitlines()) == ["1", "lost", "engine-before-agent"]


def test_markdown_is_a_table(cli: Any, world: Any) -> None:
    """The mark-up characters of a cell are escaped."""
    lines = cli("tries", world.done, "--task", "fix-login", "-o", "md").out.splitlines()
    assert lines[1] == "|" + " --- |" * 9
    assert "| wrong\\_output |" in lines[3]


def test_hostile_task_names_are_neutralised_everywhere(cli: Any, world: Any, hostile_task: str) -> None:
    """Escape sequences, direction marks and line breaks in a task's name reach no terminal."""
    for arguments in (
        ("tries", world.done),
        ("tries", world.done, "-o", "md"),
        ("tries", world.done, "-o", "csv"),
        ("status", world.done),
        ("try", world.try_id(hostile_task)),
        ("tries", world.done, "--task", "no-such"),
    ):
        ran = cli(*arguments)
        assert not {"\x1b", "\u202e", "\x07"} & set(ran.out + ran.err), arguments
    shown = "evil\\x1b[31m\\u202etask\\x0asecond line"
    assert shown in cli("tries", world.done).out
    data = json.loads(cli("tries", world.done, "--json", "--task", hostile_task).out)
    assert data["tries"][0]["task"] == hostile_task


def test_ctrl_c_ends_a_watch_quietly(world: Any) -> None:
    """Once the first picture is there, SIGINT ends it with 130 and one word."""
    script = "from orchestrator.cli.main import main; main()"
    arguments = ["--home", str(world.home.root), "status", world.open, "--watch"]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment_of(world.home.root)},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert world.open in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    # Python starts a fresh line below the ^C of the terminal.
    assert (process.returncode, said.strip()) == (130, "interrupted")
