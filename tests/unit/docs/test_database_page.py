"""docs/database.md is true: its commands run in their order, on a real server and a certified home."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import psycopg.sql
import pytest

from orchestrator.home import DATABASE_FILE_VARIABLE, DATABASE_VARIABLE
from tests.assets.certificates.certified_home import make_home
from tests.assets.services.postgres import PostgresServer

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
LINES: Final = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
PLACES: Final = ("/run/secrets/", "/backups/", "/restored", "/laptop/")


@pytest.fixture
def server(own_postgres: PostgresServer) -> PostgresServer:
    """A server with the role and the database of the page's SQL."""
    for statement in re.findall(r"^CREATE .*;$", PAGE, re.MULTILINE):
        own_postgres.execute(psycopg.sql.SQL(statement))
    return own_postgres


class Shell:
    """Runs the page's lines one after another, with its absolute places below a folder of the test."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSIZE_")}
        self.environment = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "ASSIZE_HOME": str(home),
            "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        }

    def run(self, line: str) -> str:
        for place in PLACES:
            line = re.sub(rf"(?<![\w.]){re.escape(place)}", f"{self.folder}{place}", line)
        word, *rest = shlex.split(line)
        if word == "export":
            name, _, value = rest[0].partition("=")
            self.environment[name] = value
        elif word == "unset":
            del self.environment[rest[0]]
        else:
            assert word == "assize", line
            return self._assize(line, rest)
        return ""

    def _assize(self, line: str, arguments: list[str]) -> str:
        command = [sys.executable, "-c", "from orchestrator.cli.main import main; main()", *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.mark.only_on("sqlite", "the page begins with a file and ends with one")
def test_the_page_from_laptop_to_postgresql_and_back(server: PostgresServer, tmp_path: Path) -> None:
    """Every command of the page, in the order of the page, ends with 0."""
    made = make_home(tmp_path / "made")
    secrets, laptop = tmp_path / "run" / "secrets", tmp_path / "laptop"
    secrets.mkdir(parents=True)
    laptop.mkdir()
    (secrets / "database-url").write_text(server.url("assize", "assize_owner") + "\n")
    shell = Shell(tmp_path, made.home.root)
    empty = server.new_database()
    for line in LINES:
        if "/restored db restore" in line:
            # Another database for the other home, as the page says: an empty one.
            (secrets / "database-url").rename(secrets / "kept")
            (secrets / "database-url").write_text(empty + "\n")
        if "db copy --to sqlite" in line:
            (secrets / "kept").rename(secrets / "database-url")
        shell.run(line)
    assert len(LINES) >= 15
    assert (laptop / "ledger.db").is_file()
    assert "0 problems" not in shell.run("assize db check")


def test_every_variable_and_command_is_named() -> None:
    """A command that the program has and the page does not know would be found by nobody."""
    from orchestrator.cli.database import command

    assert DATABASE_VARIABLE in PAGE and DATABASE_FILE_VARIABLE in PAGE
    for name in command.commands:
        assert f"db {name}" in PAGE, name
