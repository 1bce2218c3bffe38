"""`assize db` and `assize doctor --after-restore`: one sentence and an exit code, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg.sql
import pytest

from orchestrator.cli.main import main
from orchestrator.home import DATABASE_FILE_VARIABLE, DATABASE_VARIABLE, Home
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.models import Base
from tests.assets.services.databases import without_schema
from tests.assets.services.postgres import PostgresServer

Keep = Callable[[Home, Home], None]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Db:
    """Runs `assize` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, home: Path) -> None:
        self.capsys, self.patch, self.home = capsys, patch, home

    def __call__(self, *arguments: str, home: Path | None = None) -> Ran:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--home", str(home or self.home), *arguments])
        seen = self.capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Ran(end.value.code, seen.out, seen.err)


@pytest.fixture
def db(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Db]:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    for name in ("ASSIZE_HOME", DATABASE_VARIABLE, DATABASE_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield Db(capsys, monkeypatch, tmp_path / "home")


@pytest.fixture
def seeded(db: Db, databases: str) -> Home:
    """A small certified home."""
    from tests.assets.certificates.certified_home import make_home

    made = make_home(db.home)
    db.home = made.home.root
    return made.home


@pytest.mark.only_on("sqlite", "the way of a file to a server and back")
def test_a_laptop_moves_to_postgresql_and_back(
    db: Db, seeded: Home, empty_postgres_url: str, tmp_path: Path
) -> None:
    """docs/database.md, command by command: nothing is lost on the way, and every step can be checked."""
    before = _rows(f"sqlite:///{seeded.root / 'ledger.db'}")
    url_file = tmp_path / "url"
    url_file.write_text(empty_postgres_url + "\n")
    assert db("db", "copy", "--to-file", str(url_file)).code == 0
    assert _rows(empty_postgres_url) == before
    db.patch.setenv(DATABASE_FILE_VARIABLE, str(url_file))
    assert db("db", "current").code == 0
    assert db("db", "check").out == "no drift, all rules and invariants hold\n"
    assert db("doctor", "--after-restore").code == 0
    back = tmp_path / "back.db"
    assert db("db", "copy", "--to", f"sqlite:///{back}").code == 0
    assert _rows(f"sqlite:///{back}") == before
    again = db("db", "copy", "--to", f"sqlite:///{back}")
    assert again.code == 2 and "holds rows already" in again.err
    # The history goes on where it ended: the sequence of the copy was moved on.
    ledger = open_ledger(empty_postgres_url)
    from orchestrator.engine.stub import plan_stub

    plan_stub(ledger, ["x"])
    ledger.close()


def _rows(url: str) -> dict[str, list[object]]:
    ledger = Ledger(create_engine(url))
    try:
        with ledger.reading() as connection:
            return {
                table.name: [
                    tuple(row) for row in connection.execute(table.select().order_by(*table.primary_key))
                ]
                for table in Base.metadata.sorted_tables
            }
    finally:
        ledger.close()


def test_backup_and_restore(db: Db, seeded: Home, tmp_path: Path) -> None:
    """The way of docs/database.md; the restored home verifies itself."""
    folder = tmp_path / "backup"
    made = db("db", "backup", str(folder), "--evidence", "--json")
    assert made.code == 0 and json.loads(made.out)["counts"]["try_slot"] == 4
    new = without_schema(tmp_path / "new").root
    assert db("db", "restore", str(folder), home=new).code == 0
    proven = db("doctor", "--after-restore", home=new)
    assert proven.code == 0 and "ledger, log and evidence belong together" in proven.out
    assert db("db", "restore", str(folder), home=new).code == 2
    refused = db("db", "backup", str(folder))
    assert refused.code == 2 and "not an empty folder" in refused.err


def test_after_restore_says_what_to_do(db: Db, seeded: Home) -> None:
    """One sentence per finding and what to do; exit 1."""
    next((seeded.evidence / "sha256").rglob("*/*")).unlink()
    found = db("doctor", "--after-restore", "--json")
    assert found.code == 1
    checks = json.loads(found.out)["checks"]
    [broken] = [one for one in checks if one["blocks"]]
    assert broken["check"] == "evidence" and "restore the evidence store" in broken["mend"]


def test_postgresql_needs_its_command(db: Db, empty_postgres_url: str) -> None:
    """Refused with the command to run; after it everything holds, and it may be repeated."""
    db.patch.setenv(DATABASE_VARIABLE, empty_postgres_url)
    refused = db("status")
    assert refused.code == 4 and "assize db upgrade" in refused.err
    told = json.loads(db("doctor", "--after-restore", "--json").out)["checks"][0]
    assert (told["health"], told["mend"]) == ("missing", "assize db upgrade")
    absent = db("db", "current", "--json")
    assert absent.code == 1 and json.loads(absent.out)["schema_found"] is None
    assert db("db", "check").code == 1
    for _ in range(2):
        assert db("db", "upgrade").code == 0
    assert db("db", "check").code == 0
    assert db("status").code == 0


def test_check_names_what_is_lost(db: Db, postgres_server: PostgresServer, postgres_url: str) -> None:
    """Exit 1 and a line per loss; `upgrade` mends what can be mended."""
    db.patch.setenv(DATABASE_VARIABLE, postgres_url)
    name = str(create_engine(postgres_url).url.database)
    for statement in (
        "DROP TRIGGER tr_event_no_delete ON event",
        "ALTER TABLE event ADD COLUMN more integer",
    ):
        postgres_server.execute(psycopg.sql.SQL(statement), name)
    found = db("db", "check")
    assert found.code == 1
    assert "missing: trigger tr_event_no_delete on event" in found.out and "remove_column" in found.out
    assert db("db", "upgrade").code == 0
    assert "missing" not in db("db", "check").out


@pytest.mark.only_on("sqlite", "a server of its own is named, and at the end the file has no roles")
def test_the_worker_role_is_made(
    db: Db, postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    """With a password file the role is created; without, it must exist."""
    db.patch.setenv(DATABASE_VARIABLE, postgres_url)
    missing = db("db", "grant-worker", "cli_worker")
    assert missing.code == 2 and "--password-file" in missing.err
    secret = tmp_path / "password"
    secret.write_text("correct horse\n")
    made = db("db", "grant-worker", "cli_worker", "--password-file", str(secret))
    assert made.code == 0 and "created" in made.out and "horse" not in made.out + made.err
    assert db("db", "grant-worker", "cli_worker").code == 0
    name = str(create_engine(postgres_url).url.database)
    for statement in ("DROP OWNED BY cli_worker", "DROP ROLE cli_worker"):
        postgres_server.execute(psycopg.sql.SQL(statement), name)
    db.patch.delenv(DATABASE_VARIABLE)
    assert db("db", "upgrade").code == 0
    sqlite = db("db", "grant-worker", "cli_worker")
    assert sqlite.code == 2 and "no roles" in sqlite.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("db", "copy"), "--to or with --to-file"),
        (("db", "copy", "--to", "postgresql://me:hunter2@db/x"), "no place for a password"),
        (("db", "copy", "--to", "mysql://db/x"), "no database that a ledger"),
        (("db", "copy", "--to-file", "/nonexistent/url"), "cannot be read"),
        (("db", "current"), "there is no ledger"),
        (("db", "check"), "there is no ledger"),
        (("db", "backup", "somewhere"), "there is no ledger"),
        (("db", "restore", "/nonexistent"), "no finished backup"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    db: Db, arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is made, nothing is shown that is secret."""
    monkeypatch.chdir(tmp_path)
    ran = db(*arguments)
    assert ran.code in (2, 4) and sentence in ran.err
    assert "hunter2" not in ran.out + ran.err and "Traceback" not in ran.err
    assert not (tmp_path / "somewhere").exists()


def test_the_url_comes_from_a_file(db: Db, postgres_url: str, tmp_path: Path) -> None:
    """A password stands in a file and nowhere else; both variables at once are refused."""
    secret = tmp_path / "url"
    secret.write_text(postgres_url.replace("assize@", "assize:hunter2@") + "\n")
    db.patch.setenv(DATABASE_FILE_VARIABLE, str(secret))
    shown = db("db", "current")
    assert shown.code == 0 and "hunter2" not in shown.out and "***" in shown.out
    db.patch.setenv(DATABASE_VARIABLE, postgres_url)
    both = db("db", "current")
    assert both.code == 2 and "both set" in both.err
    db.patch.delenv(DATABASE_VARIABLE)
    secret.write_text("one\ntwo\n")
    assert "must hold one line" in db("db", "current").err


def test_a_ledger_with_running_attempts_is_not_moved(db: Db, databases: str, tmp_path: Path) -> None:
    """Two ledgers with the same live attempt could both record it."""
    from orchestrator.engine.stub import plan_stub
    from orchestrator.ledger.owners import register
    from orchestrator.ledger.transitions import claim, queue, start

    home = Home(db.home).prepare()
    ledger = open_ledger(home.database_url)
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    assert claim(ledger, screening, register(ledger).id, lease_ms=60_000) is not None
    ledger.close()
    refused = db("db", "copy", "--to", f"sqlite:///{tmp_path / 'other.db'}")
    assert refused.code == 2 and "1 attempts are running" in refused.err
