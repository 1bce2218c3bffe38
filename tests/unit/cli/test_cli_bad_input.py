"""Every wrong input is one sentence and an exit code of the table, never a traceback (CLI-4, CLI-9)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import exits, failures
from orchestrator.errors import AssizeError, UsageError
from orchestrator.home import Home

PREFIX = "SHARED"
CASES: dict[str, list[str]] = {
    "unknown command": ["screenn"],
    "unknown subcommand": ["packs", "frobnicate"],
    "unknown option": ["status", "--wach"],
    "missing argument": ["tries"],
    "too many arguments": ["status", "A", "B"],
    "unknown pack": ["screen", "no-such-pack", "--agent", "nop"],
    "unknown pack, near a known one": ["packs", "show", "coding-cor"],
    "unknown pack in build": ["images", "build", "no-such-pack"],
    "unknown pack in check": ["packs", "check", "no-such-pack"],
    "folder without tasks": ["packs", "show", "EMPTY"],
    "unknown agent": ["agents", "show", "no-such-agent"],
    "unknown agent in screen": ["screen", "PACK", "--agent", "no-such-agent"],
    "agent file that is not there": ["agents", "add", "EMPTY/agent.toml"],
    "agent file that is no TOML": ["agents", "add", "GARBAGE"],
    "no agent": ["screen", "PACK"],
    "unknown task in screen": ["screen", "PACK", "--agent", "nop", "--task", "no-such-task", "--dry-run"],
    "zero tries": ["screen", "PACK", "--agent", "nop", "--tries", "0"],
    "tries in words": ["screen", "PACK", "--agent", "nop", "--tries", "three"],
    "negative cap": ["screen", "PACK", "--agent", "nop", "--agent-wall-s", "-1"],
    "impossible runtime name": ["screen", "PACK", "--agent", "nop", "--runtime", "; rm", "--dry-run"],
    "unknown state": ["tries", "DONE", "--state", "finished"],
    "unknown outcome": ["tries", "DONE", "--outcome", "won"],
    "unknown reason": ["tries", "DONE", "--reason", "bad-luck"],
    "unknown column": ["tries", "DONE", "--columns", "id,colour"],
    "no column": ["status", "--columns", ","],
    "unknown format": ["status", "-o", "yaml"],
    "format that does not fit": ["status", "DONE", "-o", "csv"],
    "attempt zero": ["try", "DONE", "--attempt", "0"],
    "interval that is no number": ["status", "--watch", "--interval", "soon"],
    "no trust root": ["verify", "GARBAGE"],
    "trust root that is none": ["verify", "GARBAGE", "--trust-root", "GARBAGE"],
    "freeze of a file": ["packs", "freeze", "GARBAGE"],
    "freeze without pack.toml": ["packs", "freeze", "EMPTY"],
}
"""Refused before a ledger is opened."""

OF_A_LEDGER: dict[str, list[str]] = {
    "unknown screening in status": ["status", "01ZZZZ"],
    "unknown screening in tries": ["tries", "01ZZZZ"],
    "unknown screening in score": ["score", "01ZZZZ"],
    "id with a percent sign": ["status", "%"],
    "empty id": ["status", ""],
    "ambiguous screening": ["status", PREFIX],
    "ambiguous try": ["try", PREFIX],
    "unknown try": ["try", "01ZZZZ"],
    "watch in a format that does not fit": ["status", "--watch", "-o", "md"],
    "unknown task in tries": ["tries", "DONE", "--task", "no-such-task"],
}
"""Refused by what the ledger says."""


@pytest.fixture
def places(tmp_path: Path) -> Callable[[str], str]:
    """Fills the words of a case: folders and files of this test; no screening is where none is asked for."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage").write_bytes(b"\x00\xffnot a bundle\n= = =")
    task = tmp_path / "pack" / "one"
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "instruction.md").write_text("Do it.\n")
    (task / "environment" / "Dockerfile").write_text("FROM assize/base:1\n")
    (task / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    words = {
        "EMPTY": str(tmp_path / "empty"),
        "GARBAGE": str(tmp_path / "garbage"),
        "PACK": str(tmp_path / "pack"),
        "DONE": "01ZZZZ",
    }

    def fill(word: str) -> str:
        for name, value in words.items():
            word = value if word == name else word.replace(f"{name}/", f"{value}/")
        return word

    return fill


def _is_a_sentence(ran: Any, codes: tuple[int, ...]) -> None:
    assert ran.code in codes, ran
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert lines[0].startswith("error: "), ran.err
    assert lines[0].endswith("]") or len(lines) > 2
    assert len([line for line in lines if line.startswith("error: ")]) == 1
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", CASES)
def test_wrong_input_is_one_sentence_and_exit_2(
    cli: Any, places: Callable[[str], str], name: str, home: Home
) -> None:
    """The table above, each on a home that exists."""
    _is_a_sentence(cli(*map(places, CASES[name]), home=home.root), (exits.WRONG_INPUT,))


@pytest.mark.parametrize("name", OF_A_LEDGER)
def test_what_the_ledger_does_not_hold_is_one_sentence_and_exit_2(cli: Any, world: Any, name: str) -> None:
    """The second table, on a home that holds screenings."""
    both = zip(world.done, world.open, strict=True)
    shared = "".join(a for a, b in takewhile(lambda pair: pair[0] == pair[1], both))
    words = {"DONE": world.done, PREFIX: shared}
    ran = cli(*(words.get(word, word) for word in OF_A_LEDGER[name]))
    _is_a_sentence(ran, (exits.WRONG_INPUT,))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, words in {**CASES, **OF_A_LEDGER}.items()
        if "ambiguous" not in name and "DONE" not in words
    ],
)
def test_wrong_input_creates_no_home(
    cli: Any, places: Callable[[str], str], name: str, tmp_path: Path
) -> None:
    """The same on a home that does not exist: refused alike, and nothing is made."""
    home = tmp_path / "fresh"
    words = {**CASES, **OF_A_LEDGER}[name]
    _is_a_sentence(cli(*map(places, words), home=home), (exits.WRONG_INPUT,))
    assert not home.exists()


def test_unreadable_bundles(cli: Any, places: Callable[[str], str], tmp_path: Path) -> None:
    """A folder, a missing file: one sentence; garbage: a verdict with exit 2. No traceback."""
    root = _trust_root(tmp_path)
    for path in (str(tmp_path), str(tmp_path / "absent")):
        _is_a_sentence(cli("verify", path, "--trust-root", root), (exits.WRONG_INPUT,))
    ran = cli("verify", places("GARBAGE"), "--trust-root", root)
    assert ran.code == exits.WRONG_INPUT
    assert "Traceback" not in ran.err + ran.out


def _trust_root(folder: Path) -> str:
    from orchestrator.certificates import founding

    path = folder / "trust-root.json"
    founding.create(folder / "keys", path, issuer="test", now_unix_ms=1_790_000_000_000)
    return str(path)


READERS = (
    ["status"],
    ["tries", "01"],
    ["try", "01"],
    ["score", "01"],
    ["agents", "list"],
    ["images", "list"],
)


@pytest.mark.parametrize("arguments", READERS, ids=lambda one: " ".join(one))
def test_a_home_that_is_a_file(cli: Any, tmp_path: Path, arguments: list[str]) -> None:
    """Named as what it is, exit 2."""
    home = tmp_path / "home"
    home.write_text("")
    ran = cli(*arguments, home=home)
    _is_a_sentence(ran, (exits.WRONG_INPUT,))
    assert "is a file, not a folder" in ran.err


@pytest.mark.only_on("sqlite", "a file that is no database")
@pytest.mark.parametrize("arguments", [["status"], ["tries", "01"], ["score", "01"]], ids=lambda one: one[0])
def test_a_ledger_that_is_no_database(cli: Any, tmp_path: Path, arguments: list[str]) -> None:
    """Exit 4 and the way to doctor."""
    (tmp_path / "ledger.db").write_text("this is not a database, however long one looks at it")
    ran = cli(*arguments, home=tmp_path)
    _is_a_sentence(ran, (exits.CANNOT,))


@pytest.mark.only_on("sqlite", "a file of another program; a server's database is one of many")
def test_a_ledger_of_somebody_else(cli: Any, tmp_path: Path) -> None:
    """Foreign tables are left alone."""
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE customers (id INTEGER)")
    connection.close()
    _is_a_sentence(cli("status", home=tmp_path), (exits.CANNOT,))


def test_a_home_that_cannot_be_made(cli: Any, places: Callable[[str], str]) -> None:
    """Below /proc nothing can be created, not even by root: exit 4 names the place."""
    ran = cli("screen", places("PACK"), "--agent", "nop", home=Path("/proc/assize-home"))
    _is_a_sentence(ran, (exits.CANNOT,))
    assert "/proc/assize-home" in ran.err


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("command", [["screen", "PACK", "--agent", "nop"], ["images", "build", "PACK"]])
def test_no_engine(cli: Any, places: Callable[[str], str], command: list[str], tmp_path: Path) -> None:
    """Cannot run here: exit 4, and what to install."""
    ran = cli(*map(places, command), home=tmp_path / "home")
    _is_a_sentence(ran, (exits.CANNOT,))
    assert ran.err.splitlines()[-1].startswith("  next: install a Docker engine")


@pytest.mark.only_on(
    "sqlite", "who may not write the home may not write its ledger: only where that is a file"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be taken on by root")
@pytest.mark.parametrize("arguments", [["status"], ["score", "01"], ["screen", "PACK", "--agent", "nop"]])
def test_a_read_only_home(places: Callable[[str], str], world: Any, arguments: list[str]) -> None:
    """A user who may read the home but not write it gets the answer or one sentence (exit 2 or 4)."""
    code = (
        "import os, sys; from orchestrator.cli import main, status, score, screen, failures;"
        "os.seteuid(65534); main.main(sys.argv[1:])"
    )
    # Not below pytest's own folder, which no other user may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        shutil.copytree(world.home.root, home)
        ran = subprocess.run(
            [sys.executable, "-c", code, "--home", str(home), *map(places, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "DOCKER_HOST": "unix:///nonexistent"},
        )
    assert ran.returncode in (0, exits.WRONG_INPUT, exits.CANNOT), ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0 or ran.stderr.startswith("error: ")


def test_an_unforeseen_error_is_a_sentence_too(cli: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLI-9: a defect is reported as one, with --debug showing where."""
    import orchestrator.cli.status as status

    def fail(_found: object) -> object:
        raise ZeroDivisionError("one over nothing\nsecond line")

    monkeypatch.setattr(status, "_rows", fail)
    ran = cli("status")
    _is_a_sentence(ran, (exits.CANNOT,))
    assert ran.err.startswith("error: a defect in Assize: ZeroDivisionError: one over nothing [internal]")
    assert "--debug" in ran.err


def test_hostile_text_in_an_error_is_neutralised(capsys: pytest.CaptureFixture[str]) -> None:
    """What a pack or an agent wrote may stand in a message."""
    assert failures.report(UsageError("task \x1b[31mred\u202e"), debug=False) == exits.WRONG_INPUT
    assert capsys.readouterr().err == "error: task \\x1b[31mred\\u202e [usage]\n"


def test_a_long_list_of_problems_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty lines and a count, all of them with --debug."""
    error = UsageError("\n  - ".join(["pack x", *map(str, range(70))]))
    failures.report(error, debug=False)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == failures.MAX_LINES + 1
    assert lines[-1] == "  and 51 more (all with `assize --debug ...`) [usage]"


def _subclasses(kind: type[AssizeError]) -> set[type[AssizeError]]:
    return {kind}.union(*map(_subclasses, kind.__subclasses__()))


def test_every_error_of_ours_has_an_exit_code_of_the_table() -> None:
    """CLI-4: one table for all; and codes are lower-case words."""
    import orchestrator.certificates.screening
    import orchestrator.screenings.launch  # noqa: F401 - imported so that their errors exist

    for kind in _subclasses(AssizeError):
        assert kind.exit_code in exits.TABLE, kind
        assert kind.code == kind.code.lower()
        assert " " not in kind.code


def test_the_table_of_exit_codes() -> None:
    """Exactly the codes of CLI-4."""
    assert sorted(exits.TABLE) == [0, 1, 2, 3, 4, 130]
