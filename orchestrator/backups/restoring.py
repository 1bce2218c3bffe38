"""Bringing a backup back into a home that has no ledger: nothing that is there is ever overwritten."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from orchestrator.backups import making, manifest, programs
from orchestrator.backups.errors import BackupError, TargetError
from orchestrator.backups.manifest import Backup
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger, create_engine, sqlite_file
from orchestrator.ledger.migrate import upgrade
from orchestrator.ledger.models import Base


@dataclass(frozen=True)
class Restored:
    """What was done: files of the log put back and files left because the home has its own."""

    backup: Backup
    put_back: int
    left: int
    evidence: int


def restore(home: Home, folder: Path) -> Restored:
    """Restore the ledger of a backup into the home's database, and the log and evidence that are missing.

    Errors: `BackupError` for a backup whose files are not those of its manifest, `TargetError` for a database
    that is not empty or of another kind. A log or evidence that the home still has is kept: it can only be
    newer. Afterwards `assize doctor --after-restore` says whether the three belong together.
    """
    backup = manifest.read(folder)
    home.prepare()
    ledger = Ledger(create_engine(home.database_url))
    try:
        _refuse(ledger, backup)
        _restore_database(ledger, folder / backup.database.path)
    finally:
        ledger.close()
    # A newer version of Assize brings an older backup up to date; triggers and collation are verified.
    upgrade(home.database_url)
    _count(home, backup)
    put_back, left = 0, 0
    for target, one in making.restored(home, folder, backup):
        if target.exists():
            left += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / one.path, target)
        put_back += 1
    return Restored(backup, put_back, left, _restore_evidence(home, folder))


def _refuse(ledger: Ledger, backup: Backup) -> None:
    kind = ledger.engine.dialect.name
    if kind != backup.kind:
        raise TargetError(
            f"the backup is of {backup.kind}, the home's database is {kind}",
            hint="restore it into a database of its own kind, then `assize db copy` moves it",
        )
    path = sqlite_file(ledger.engine.url)
    if path is not None:
        if path.exists():
            raise TargetError(f"{path} exists", hint="move it away first; it is not overwritten")
        return
    with ledger.reading() as connection:
        tables = sa.inspect(connection).get_table_names()
    if tables:
        raise TargetError(
            f"the database holds tables already ({', '.join(sorted(tables)[:3])}, ...)",
            hint="create an empty database and name it with ASSIZE_DATABASE_URL",
        )


def _restore_database(ledger: Ledger, source: Path) -> None:
    path = sqlite_file(ledger.engine.url)
    if path is not None:
        # Under its name only when it is whole: a copy that was cut off must not look like a ledger.
        half = path.with_name(path.name + ".restoring")
        shutil.copyfile(source, half)
        half.replace(path)
        return
    major = programs.major_version(ledger)
    command = [programs.find("pg_restore", major), "--no-owner", "--no-privileges", "--exit-on-error"]
    command += [
        "--single-transaction",
        "--no-password",
        f"--dbname={ledger.engine.url.database}",
        str(source),
    ]
    programs.run(command, ledger.engine.url)


def _count(home: Home, backup: Backup) -> None:
    """The ledger may have grown between counting and copying, never shrunk."""
    ledger = Ledger(create_engine(home.database_url))
    try:
        with ledger.reading() as connection:
            for table in Base.metadata.sorted_tables:
                found = connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
                if found < backup.counts.get(table.name, 0):
                    raise BackupError(
                        f"{table.name} has {found} rows after the restore, the backup counted"
                        f" {backup.counts[table.name]}",
                        hint="use another copy of this backup",
                    )
    finally:
        ledger.close()


def _restore_evidence(home: Home, folder: Path) -> int:
    """Copy back what is missing of a copied store; blobs are named by their digest, so equal names agree."""
    done = 0
    source = folder / "evidence"
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        target = home.evidence / path.relative_to(source)
        if path.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
            done += 1
    return done
