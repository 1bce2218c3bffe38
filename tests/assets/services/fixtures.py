"""Fixtures of real servers; tests/conftest.py takes them over. A server starts when a test first asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # most tests need neither server nor driver
    from tests.assets.services.postgres import PostgresServer
    from tests.assets.services.redis import RedisServer
    from tests.assets.services.s3 import S3Server


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server of one's own, stopped at the end whatever happens."""
    from tests.assets.services.postgres import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests of the session; a test that stops it makes its own instead."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database with the ledger's schema, dropped after the test."""
    from orchestrator.ledger.migrate import upgrade

    url = postgres_server.new_database(upgrade)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database without any schema, dropped after the test."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, to stop, freeze and kill."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis server of the test's own (append-only), to stop, freeze and kill."""
    from tests.assets.services.redis import RedisServer

    server = RedisServer(appendonly=True)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger to be opened, once on each database: every test that asks for it runs twice."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 server for all tests of the session; a test that stops it makes its own instead."""
    from tests.assets.services.s3 import S3Server

    server = S3Server()
    try:
        server.start()
        yield server
    finally:
        server.close()
