"""PostgreSQL's own programs: the dump of a server is made and read by those of its major version.

No password stands on a command line: the place of the database is told by the child's environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import URL

from orchestrator.backups.errors import BackupError
from orchestrator.ledger.db import Ledger

_DEBIAN: Final = Path("/usr/lib/postgresql")
_LAST_LINES: Final = 5
_SETTINGS: Final = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "passfile": "PGPASSFILE",
}


def major_version(ledger: Ledger) -> int:
    """The major version of the server, 14 or later."""
    with ledger.reading() as connection:
        return int(connection.scalar(sa.text("SHOW server_version_num")) or 0) // 10_000


def find(name: str, major: int) -> str:
    """The program `name` of major version `major`; `BackupError` says which package has it."""
    for candidate in _candidates(name, major):
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"\) (\d+)", done.stdout)
        if done.returncode == 0 and found is not None and int(found[1]) == major:
            return candidate
    raise BackupError(
        f"{name} of PostgreSQL {major} is not installed, and another version may not be used",
        hint=f"apt-get install postgresql-client-{major}",
    )


def _candidates(name: str, major: int) -> Iterator[str]:
    versioned = _DEBIAN / str(major) / "bin" / name
    if versioned.is_file():
        yield str(versioned)
    on_path = shutil.which(name)
    if on_path is not None:
        yield on_path


def run(command: Sequence[str], url: URL) -> None:
    """Run one of the programs on the database of `url`; `BackupError` with its last lines when it fails."""
    done = subprocess.run(
        list(command),
        env=environment(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = "; ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise BackupError(f"{Path(command[0]).name} failed: {said or f'exit code {done.returncode}'}")


def environment(url: URL) -> dict[str, str]:
    """The environment that names the database of `url` to libpq, password included."""
    given = {name: value for name, value in url.query.items() if isinstance(value, str)}
    given |= {
        name: str(value)
        for name, value in (("host", url.host), ("port", url.port), ("user", url.username))
        if value is not None
    }
    named = {variable: given[name] for name, variable in _SETTINGS.items() if name in given}
    if url.password is not None:
        named["PGPASSWORD"] = str(url.password)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, **named, "PGDATABASE": str(url.database or "")}
