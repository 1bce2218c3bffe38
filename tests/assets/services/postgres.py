"""A real PostgreSQL server of the tests' own, and one database per test.

The server listens on a Unix socket in its own folder, and on loopback when asked. It runs as an
unprivileged user (root may not run it). `fsync` is off: tests kill processes, never the machine. A database
is a copy of a migrated template, which takes about a twentieth of the time of the migrations.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from tests.assets.services.own import (
    OwnProcess,
    ServiceError,
    as_user,
    find_program,
    free_port,
    own_folder,
)

SUPERUSER: Final = "assize"
_TEMPLATE: Final = "assize_template"
_SOCKET_PORT: Final = 5432
_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "autovacuum": "off",
    "log_min_messages": "fatal",
    "timezone": "UTC",
}


def programs() -> Path:
    """The folder of the newest PostgreSQL server of the distribution (14 or later)."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )
    return Path(find_program("postgres", folders, package="postgresql")).parent


def _account() -> str | None:
    """Who runs the server: the caller, or an unprivileged account when the caller is root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class PostgresServer:
    """One server; `start`, then `new_database` as often as needed, at last `close`."""

    def __init__(self, *, tcp: bool = False, durable: bool = False, address: str | None = None) -> None:
        """`address`: where other machines reach it, with a password; a role of its own has to be made."""
        user = _account()
        self.bin = programs()
        self.folder = own_folder("postgres", user)
        self.port = free_port() if tcp or address else _SOCKET_PORT
        self._tcp = tcp
        self._count = 0
        self._has_template = False
        data = self.folder / "data"
        settings = {
            **({"fsync": "on"} if durable else _SETTINGS),
            "listen_addresses": ",".join([*(["127.0.0.1"] if tcp else []), *([address] if address else [])]),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self.bin / "postgres"), "-D", str(data), *options]
        # SIGQUIT is PostgreSQL's immediate shutdown: it takes its children along.
        self.process = OwnProcess(as_user(command, user, on_parent_death="QUIT"), self.folder, self._answers)
        self._initdb(data, user)
        if address is not None:
            with (data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {address}/24 scram-sha-256\n")

    def _initdb(self, data: Path, user: str | None) -> None:
        command = [str(self.bin / "initdb"), "-D", str(data), "-U", SUPERUSER, "-A", "trust"]
        # A language's sort order, as most real servers have one: bytes would hide what depends on it.
        command += ["-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US"]
        command += ["--no-sync", "--no-instructions"]
        done = subprocess.run(
            as_user(command, user), cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ServiceError(f"initdb failed: {done.stderr[-2000:]}")

    def _answers(self) -> bool:
        try:
            self._admin().close()
        except psycopg.OperationalError:
            return False
        return True

    def _admin(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.folder), port=self.port, user=SUPERUSER, dbname=database, autocommit=True
        )

    def execute(
        self, statement: sql.SQL | sql.Composed, database: str = "postgres"
    ) -> list[tuple[object, ...]]:
        """One statement as the superuser, outside any transaction; the rows, if it has some."""
        with self._admin(database) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description is not None else []

    def url(self, database: str, user: str = SUPERUSER, password: str | None = None) -> str:
        """The SQLAlchemy URL of a database, by loopback when the server has it, else by the socket."""
        account = user if password is None else f"{user}:{password}"
        if self._tcp:
            return f"postgresql+psycopg://{account}@127.0.0.1:{self.port}/{database}"
        return f"postgresql+psycopg://{account}@/{database}?host={self.folder}&port={self.port}"

    def start(self) -> None:
        """Start (again) and return when it answers."""
        self.process.start()

    def stop(self) -> None:
        """Fast shutdown, as a service manager does it: open transactions are rolled back."""
        self.process.stop(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the server and every backend."""
        self.process.kill()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def restart(self) -> None:
        """Stop and start; every connection is cut."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Nothing answers any more, connections stay open."""
        self.process.freeze()

    def thaw(self) -> None:
        """After `freeze`."""
        self.process.thaw()

    def new_database(self, migrate: Callable[[str], object] | None = None) -> str:
        """A new database, and its URL: a copy of the one that `migrate(url)` made, or empty."""
        template = "template1"
        if migrate is not None:
            template = _TEMPLATE
            if not self._has_template:
                self._create(_TEMPLATE, "template1")
                migrate(self.url(_TEMPLATE))
                self._has_template = True
        return self._copy(template)

    def copy_database(self, url: str) -> str:
        """A copy of a database that nobody is connected to, and its URL."""
        return self._copy(self._name(url))

    def _copy(self, template: str) -> str:
        self._count += 1
        name = f"test_{self._count}"
        self._create(name, template)
        return self.url(name)

    def _name(self, url: str) -> str:
        return url.rpartition("/")[2] if self._tcp else url.partition("@/")[2].partition("?")[0]

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, whoever is still connected to it."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self.execute(statement.format(sql.Identifier(self._name(url))))

    def close(self) -> None:
        """Stop the server and remove everything it had."""
        try:
            self.process.stop(signal.SIGQUIT)
        finally:
            self.process.remove()
