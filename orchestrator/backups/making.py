"""Making a backup while work goes on: ledger and log of one moment, then the evidence.

While the log's own lock is held nothing can be certified: whatever the copied log has was recorded before,
so the copied ledger has it too. Evidence is written before the ledger speaks of it and never changed, so it
may be copied last. Keys are secrets and no part of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.backups import manifest, programs
from orchestrator.backups.errors import BackupError, TargetError
from orchestrator.backups.manifest import Backup, File
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger, sqlite_file
from orchestrator.ledger.migrate import HEAD, copy_sqlite
from orchestrator.ledger.models import Base, Evidence
from orchestrator.log import witnessed
from orchestrator.log.audit import CHECKPOINT_FILE

DATABASE: Final = {"sqlite": "ledger.db", "postgresql": "ledger.dump"}


def make(home: Home, ledger: Ledger, folder: Path, *, with_evidence: bool = False) -> Backup:
    """Back the home's ledger and log up into the new or empty `folder`; with evidence, all of it too.

    Errors: `TargetError` for a folder that is not empty, `BackupError` for what cannot be copied. A backup
    that failed has no manifest.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TargetError(f"{folder} is not an empty folder", hint="name a new folder for every backup")
    folder.mkdir(parents=True, exist_ok=True)
    kind = ledger.engine.dialect.name
    database = folder / DATABASE[kind]
    with _moment(ledger) as connection:
        with _quiet_logs(home) as logs:
            facts = _facts(ledger, connection)
            if kind == "sqlite":
                _copy_sqlite(ledger, database)
            logged = list(_copy_log(home, logs, folder))
        if kind == "postgresql":
            _dump(ledger, connection, database)
    if with_evidence:
        _copy_evidence(home.evidence, folder / "evidence")
    backup = Backup(
        schema="assize.backup/1",
        made_unix_ms=facts.made_unix_ms,
        kind="sqlite" if kind == "sqlite" else "postgresql",
        server_major=programs.major_version(ledger) if kind == "postgresql" else None,
        revision=HEAD,
        counts=facts.counts,
        database=manifest.describe(folder, database),
        files=[manifest.describe(folder, path) for path in logged],
        evidence_folder=str(home.evidence),
        evidence_copied=with_evidence,
        manifests=facts.manifests,
    )
    backup.write(folder)
    return backup


@dataclass(frozen=True)
class _Facts:
    """What the ledger held at the moment of the backup."""

    made_unix_ms: int
    counts: dict[str, int]
    manifests: list[str]


@contextmanager
def _moment(ledger: Ledger) -> Iterator[Connection]:
    """A read unit that stays open, however long the dump takes."""
    with ledger.reading() as connection:
        if ledger.engine.dialect.name == "postgresql":
            connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        yield connection


@contextmanager
def _quiet_logs(home: Home) -> Iterator[list[Path]]:
    """Hold the lock of every log of the home; their folders. A new shard cannot begin meanwhile: it would
    have to lock the one before it."""
    folders = sorted({path.parent for path in home.log.rglob(CHECKPOINT_FILE)})
    with ExitStack() as stack:
        for folder in folders:
            stack.enter_context(witnessed.locked(folder))
        yield folders


def _facts(ledger: Ledger, connection: Connection) -> _Facts:
    counts = {
        table.name: int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)
        for table in Base.metadata.sorted_tables
    }
    digests = sorted(set(connection.scalars(sa.select(Evidence.manifest_digest))))
    return _Facts(ledger.clock(connection), counts, digests)


def _copy_sqlite(ledger: Ledger, target: Path) -> None:
    path = sqlite_file(ledger.engine.url)
    if path is None:
        raise BackupError("a ledger in memory cannot be backed up")
    copy_sqlite(path, target)


def _dump(ledger: Ledger, connection: Connection, target: Path) -> None:
    """Dump what `connection` sees: the moment at which the log stood still, not the one of now."""
    snapshot = connection.scalar(sa.text("SELECT pg_export_snapshot()"))
    # No privileges: the worker role of another server has another name; `grant-worker` makes them again.
    command = [programs.find("pg_dump", programs.major_version(ledger)), "--format=custom", "--no-owner"]
    command += ["--no-privileges", "--no-password", f"--snapshot={snapshot}", f"--file={target}"]
    programs.run(command, ledger.engine.url)


def _copy_log(home: Home, logs: list[Path], folder: Path) -> Iterator[Path]:
    """The versions of the trust root and every file of every log."""
    for path in sorted(home.root.glob("trust-root*.json")):
        yield _copied(path, folder / path.name)
    for path in (path for origin in logs for path in sorted(origin.rglob("*"))):
        if path.is_file():
            yield _copied(path, folder / "log" / path.relative_to(home.log))


def _copied(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise BackupError(f"{source} cannot be copied: {error.strerror}") from error
    return target


def _copy_evidence(source: Path, target: Path) -> None:
    """Every finished blob and side file; what is in `tmp/` is not evidence yet."""
    for area in ("sha256", "withheld"):
        for path in sorted((source / area).rglob("*")):
            if path.is_file():
                _copied(path, target / path.relative_to(source))


def restored(home: Home, folder: Path, backup: Backup) -> Iterator[tuple[Path, File]]:
    """Where each file of the log and of the trust root belongs in a home."""
    for one in backup.files:
        inside = Path(one.path)
        yield (home.log.joinpath(*inside.parts[1:]) if inside.parts[0] == "log" else home.root / inside), one
