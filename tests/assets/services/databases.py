"""On which database the ledger of a home is: a file in the home, or a PostgreSQL database of its own.

A test that opens the ledger of a home asks for `databases`, itself or by its fixtures, and runs once on each.
Nothing else of it changes: a home whose database nobody names has one on a server in the second run;
`environment_of` tells it to other processes. What is about one database only says so with
`@pytest.mark.only_on`, and the session refuses a test that opened a ledger in a file and said neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from orchestrator.home import DATABASE_VARIABLE, Home

if TYPE_CHECKING:  # most sessions need no server
    from tests.assets.services.postgres import PostgresServer

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
FIXTURE: Final = "databases"
ENGINES: Final = "engines"
DATABASE_OF: Final = {"local": SQLITE, "celery": POSTGRESQL}
"""The two ways in which Assize is run: one machine with a file, many hosts with a server."""
ON_BOTH_ALREADY: Final = "ledger_url"
"""The fixture of tests that open a ledger without a home."""
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
            from orchestrator.ledger.migrate import upgrade

            self._urls[root] = self.server.new_database(upgrade)
        return self._urls[root]

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


@pytest.fixture(scope="session", params=[SQLITE, POSTGRESQL])
def databases(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the database of every home of the test."""
    if request.param == SQLITE:
        yield SQLITE
        return
    with on_server(request.getfixturevalue("postgres_server")):
        yield POSTGRESQL


@contextmanager
def on_server(server: PostgresServer) -> Iterator[None]:
    """Homes of tests that want PostgreSQL have their databases there, dropped at the end."""
    before = _databases.server
    _databases.server = server
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Home, "database_url", property(_databases.url))
        yield
        if before is None:
            _databases.drop_below(Path("/"))
    _databases.server = before


def wanted_by(item: pytest.Item) -> str:
    """The database that a test runs on: `databases` says it, or the engine that `engines` gives it."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    return str(DATABASE_OF[params[ENGINES]] if ENGINES in params else params.get(FIXTURE, SQLITE))


def begin(item: pytest.Item) -> None:
    """Before anything of a test is set up."""
    _databases.wanted = wanted_by(item)


@pytest.fixture(autouse=True)
def every_ledger_is_accounted_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test opens a ledger in a file without having said on which databases it runs."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is None:
        return
    said = {FIXTURE, ENGINES, ON_BOTH_ALREADY} & set(request.fixturenames) or request.node.get_closest_marker(
        "only_on"
    )
    if not said or _databases.wanted == POSTGRESQL:
        # Not `rglob`: it fails in a tree that is deeper than a path can be, as some tests make.
        found = [place for place, _, files in os.walk(folder) if "ledger.db" in files]
        assert found == [], f"a ledger in a file, but the test runs on {_databases.wanted}: {found}"
    _databases.drop_below(Path(folder))


def only_where_it_belongs(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the runs out that `only_on(database, reason)` rules out."""
    kept, out = [], []
    for item in items:
        mark = item.get_closest_marker("only_on")
        if mark is not None:
            database, reason = mark.args
            assert reason, item.nodeid
        (kept if mark is None or wanted_by(item) == database else out).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = kept
