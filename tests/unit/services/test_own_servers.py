"""The servers of the tests are real, keep what they are told to keep, and die with the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import psycopg.sql
import pytest
import redis
import sqlalchemy as sa

from orchestrator.ledger.db import create_engine
from orchestrator.ledger.migrate import open_ledger
from tests.assets.services.own import wait_until

if TYPE_CHECKING:
    from tests.assets.services.postgres import PostgresServer
    from tests.assets.services.redis import RedisServer

ROOT = Path(__file__).resolve().parents[3]


def test_every_test_has_a_database_of_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    """A database is a copy of the migrated template: rows of one test are not seen by another."""
    from orchestrator.ledger.migrate import upgrade
    from orchestrator.ledger.owners import register, unended

    ledger = open_ledger(postgres_url)
    register(ledger)
    other_url = postgres_server.new_database(upgrade)
    other = open_ledger(other_url)
    assert (len(unended(ledger)), len(unended(other))) == (1, 0)
    ledger.close()
    other.close()
    postgres_server.drop_database(other_url)


def test_the_server_is_unprivileged_and_not_on_the_network(postgres_server: PostgresServer) -> None:
    """Root may not run PostgreSQL, and a test server is no open door."""
    status = Path(f"/proc/{postgres_server.process.pid}/status").read_text(encoding="utf-8")
    uid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Uid:"))
    assert uid != 0
    assert postgres_server.execute(psycopg.sql.SQL("SHOW listen_addresses")) == [("",)]


def test_postgres_stops_and_comes_back(own_postgres: PostgresServer) -> None:
    """Stop, kill and restart keep committed rows; while it is down nobody gets in."""
    url = own_postgres.new_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE kept (n integer)"))
        connection.execute(sa.text("INSERT INTO kept VALUES (1)"))
    engine.dispose()
    own_postgres.stop()
    with pytest.raises(sa.exc.OperationalError):
        engine.connect()
    own_postgres.start()
    own_postgres.kill()
    own_postgres.start()
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT n FROM kept")) == 1
    engine.dispose()


def test_a_frozen_postgres_does_not_answer(own_postgres: PostgresServer) -> None:
    """Frozen is not stopped: the connection stays open and nothing comes."""
    place = (
        f"host={own_postgres.folder} port={own_postgres.port} user=assize dbname=postgres connect_timeout=2"
    )
    with psycopg.connect(place) as connection:
        own_postgres.freeze()
        with pytest.raises(psycopg.OperationalError), psycopg.connect(place):
            raise AssertionError("a frozen server answered")
        own_postgres.thaw()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_redis_keeps_and_forgets(redis_server: RedisServer) -> None:
    """Append-only survives a stop; a wipe does not; a killed one is gone until it is started."""
    client = redis_server.client()
    client.set("key", "value")
    redis_server.restart()
    assert client.get("key") == "value"
    redis_server.wipe()
    assert client.get("key") is None
    redis_server.kill()
    with pytest.raises(redis.ConnectionError):
        client.get("key")
    client.close()


@pytest.mark.parametrize("kind", ["postgres.PostgresServer", "redis.RedisServer"])
def test_servers_die_with_a_killed_test_run(kind: str) -> None:
    """kill -9 of the tests leaves no server behind, whatever was running."""
    module, name = kind.split(".")
    program = (
        f"from tests.assets.services.{module} import {name}\n"
        f"server = {name}(); server.start(); print(server.process.pid, server.folder, flush=True); input()"
    )
    tests = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tests.stdin is not None and tests.stdout is not None
    pid, folder = tests.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    os.kill(tests.pid, signal.SIGKILL)
    tests.wait()
    tests.stdin.close()
    tests.stdout.close()
    wait_until(lambda: not _alive(int(pid)), f"server {pid} is gone")
    subprocess.run(["rm", "-rf", folder], check=True)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
