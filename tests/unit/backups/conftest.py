"""A certified home on either database, and places to restore it to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.home import DATABASE_VARIABLE, Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from tests.assets.certificates import certified_home


@dataclass
class Place:
    """A home and its database; `use` makes it the one that the environment names."""

    home: Home
    url: str | None
    patch: pytest.MonkeyPatch

    def use(self) -> Home:
        if self.url is None:
            self.patch.delenv(DATABASE_VARIABLE, raising=False)
        else:
            self.patch.setenv(DATABASE_VARIABLE, self.url)
        return self.home

    def ledger(self) -> Ledger:
        return open_ledger(self.use().database_url)


@dataclass
class Places:
    """Hands out empty places of one kind of database."""

    kind: str
    folder: Path
    patch: pytest.MonkeyPatch
    make_url: Callable[[], str]
    count: int = 0

    def new(self) -> Place:
        self.count += 1
        home = Home(self.folder / f"home-{self.count}")
        return Place(home, self.make_url() if self.kind == "postgresql" else None, self.patch)


@pytest.fixture
def places(
    request: pytest.FixtureRequest, databases: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Places]:
    """New homes, each with an empty database of its own; every test that asks runs on both databases."""
    made: list[str] = []
    server: Any = request.getfixturevalue("postgres_server") if databases == "postgresql" else None

    def make_url() -> str:
        made.append(server.new_database())
        return made[-1]

    yield Places(databases, tmp_path, monkeypatch, make_url)
    for url in made:
        server.drop_database(url)


@dataclass
class Certified:
    """A place with a closed and certified screening."""

    place: Place
    made: certified_home.CertifiedHome

    @property
    def home(self) -> Home:
        return self.place.home


@pytest.fixture
def certified(places: Places, tmp_path: Path) -> Certified:
    """A home whose screening was run with scripted attempts, signed, logged and closed."""
    place = places.new()
    if place.url is not None:
        from orchestrator.ledger.migrate import upgrade

        upgrade(place.url)
    place.use()
    made = certified_home.make_home(tmp_path / "certified")
    return Certified(Place(made.home, place.url, place.patch), made)


@pytest.fixture
def keep_keys() -> Callable[[Home, Home], None]:
    """Keys are no part of a backup: an operator brings them from where they are kept."""

    def keep(source: Home, target: Home) -> None:
        shutil.copytree(source.keys, target.keys, dirs_exist_ok=True)

    return keep
