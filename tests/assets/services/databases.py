"""On which database the ledger of a home is: a file in the home, or a PostgreSQL database of its own.

A test that opens the ledger of a home asks for `databases`, itself or by its fixtures, and runs once on each.
Nothing else of it changes: a home whose database nobody names has one on a server in the second run;
`environment_of` tells it to other processes, `copy_home` copies a home with it. What is about one database
only says so with `@pytest.mark.only_on`, and the session refuses a test that opened a ledger in a file and
said neither, by the folders that the test and its fixtures made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from orchestrator.home import DATABASE_VARIABLE, Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger, upgrade

if TYPE_CHECKING:  # most sessions need no server
    from tests.assets.services.postgres import PostgresServer

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
FIXTURE: Final = "databases"
ENGINES: Final = "engines"
DATABASE_OF: Final = {"local": SQLITE, "celery": POSTGRESQL}
"""The two ways in which Assize is run: one machine with a file, many hosts with a server."""
ON_BOTH_ALREADY: Final = frozenset({"ledger_url", "drilled"})
"""Fixtures of tests that open a ledger without a home."""
_STATED: Final = vars(Home)["database_url"].fget


class _Databases:
    """One database per home, while a test of PostgreSQL runs."""

    def __init__(self) -> None:
        self.server: PostgresServer | None = None
        self.wanted = SQLITE
        self._urls: dict[Path, str] = {}

    def url(self, home: Home) -> str:
        """As the product says it, but for the file that it falls back on."""
        stated = str(_STATED(home))
        if self.server is None or self.wanted == SQLITE or stated != f"sqlite:///{home.root / 'ledger.db'}":
            return stated
        root = home.root.absolute()
        if root not in self._urls:
            self._urls[root] = self.server.new_database(upgrade)
        return self._urls[root]

    def copy(self, source: Path, target: Path) -> None:
        """Give the home at `target` a copy of the database of `source`, when that has one."""
        if (url := self._urls.get(source.absolute())) is not None:
            assert self.server is not None
            self._urls[target.absolute()] = self.server.copy_database(url)

    def make_empty(self, root: Path) -> None:
        """Give the home at `root` a database without our schema."""
        if self.server is not None and self.wanted == POSTGRESQL:
            self._urls[root.absolute()] = self.server.new_database()

    def drop_below(self, folder: Path) -> None:
        """Drop those of every home below a folder."""
        for root in [one for one in self._urls if one.is_relative_to(folder)]:
            assert self.server is not None
            self.server.drop_database(self._urls.pop(root))


_databases = _Databases()


def environment_of(home: Path) -> dict[str, str]:
    """What another process has to be told of a home's database; nothing where it is the file."""
    url = Home(home).database_url
    return {} if url.startswith("sqlite:") else {DATABASE_VARIABLE: url}


def without_schema(root: Path) -> Home:
    """A home to be restored to: its database, if not the file, is there and empty."""
    _databases.make_empty(root)
    return Home(root)


def copy_home(source: Path, target: Path) -> Home:
    """A copy of a home with its ledger, which nobody may have open."""
    shutil.copytree(source, target)
    _databases.copy(source, target)
    return Home(target)


def remove_home(root: Path) -> None:
    """Remove a home with its ledger before the end of the test, which would do it too."""
    shutil.rmtree(root)
    _databases.drop_below(root.absolute())


@pytest.fixture(scope="session", params=[SQLITE, POSTGRESQL])
def databases(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the database of every home of the test."""
    if request.param == SQLITE:
        yield SQLITE
        return
    serve(request)
    yield POSTGRESQL


def serve(request: pytest.FixtureRequest) -> None:
    """Homes of tests that want PostgreSQL have their databases on the session's server from now on."""
    _databases.server = request.getfixturevalue("postgres_server")


@pytest.fixture(scope="session", autouse=True)
def homes_ask_for_their_database() -> Iterator[None]:
    """Which one it is, is decided test by test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Home, "database_url", property(_databases.url))
        yield


def wanted_by(item: pytest.Item) -> str:
    """The database that a test runs on: `databases` says it, or the engine that `engines` gives it."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    return str(DATABASE_OF[params[ENGINES]] if ENGINES in params else params.get(FIXTURE, SQLITE))


def begin(item: pytest.Item) -> None:
    """Before anything of a test is set up."""
    _databases.wanted = wanted_by(item)


@pytest.fixture(scope="session")
def folders_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """The folders for tests and fixtures that were made since somebody last looked."""
    made: list[Path] = []
    make = tmp_path_factory.mktemp

    def noted(*arguments: Any, **options: Any) -> Path:
        made.append(make(*arguments, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmp_path_factory, "mktemp", noted)
        yield made


@pytest.fixture(autouse=True)
def every_ledger_is_accounted_for(request: pytest.FixtureRequest, folders_made: list[Path]) -> Iterator[None]:
    """No test opens a ledger in a file without having said on which databases it runs."""
    own = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    made, folders_made[:] = list(folders_made), []
    asked = {FIXTURE, ENGINES, *ON_BOTH_ALREADY} & set(request.fixturenames)
    said = asked or request.node.get_closest_marker("only_on") is not None
    if not said or _databases.wanted == POSTGRESQL:
        # Not `rglob`: it fails in a tree that is deeper than a path can be, as some tests make.
        found = [place for folder in made for place, _, files in os.walk(folder) if "ledger.db" in files]
        assert found == [], f"a ledger in a file, but the test runs on {_databases.wanted}: {found}"
    if own is not None:
        _databases.drop_below(own)


def only_where_it_belongs(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the runs out that `only_on(database, reason)` rules out."""
    kept: list[pytest.Item] = []
    out: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("only_on")
        if mark is not None:
            database, reason = mark.args
            assert reason and (database == SQLITE or FIXTURE in getattr(item, "fixturenames", ())), (
                item.nodeid
            )
        (kept if mark is None or wanted_by(item) == database else out).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = kept


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of the test's own, without a ledger yet: who opens one asks for `databases` too."""
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def ledger(home: Home, databases: str) -> Iterator[Ledger]:
    """The ledger of that home, on each database."""
    opened = open_ledger(home.database_url)
    yield opened
    opened.close()
