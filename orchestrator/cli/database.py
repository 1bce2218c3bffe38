"""`assize db`: the database that the ledger is kept in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from orchestrator.backups import making, restoring, transfer
from orchestrator.cli import exits
from orchestrator.cli.output import cell, emit, home_of, json_option, say
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.home import Home, read_secret
from orchestrator.ledger import invariants, migrate, roles
from orchestrator.ledger.db import Ledger, create_engine, parse_url, sqlite_file
from orchestrator.ledger.rules import missing_rules

CURRENT_SCHEMA: Final = "assize.db-current/1"
UPGRADE_SCHEMA: Final = "assize.db-upgrade/1"
CHECK_SCHEMA: Final = "assize.db-check/1"
BACKUP_SCHEMA: Final = "assize.db-backup/1"
RESTORE_SCHEMA: Final = "assize.db-restore/1"
COPY_SCHEMA: Final = "assize.db-copy/1"
GRANT_SCHEMA: Final = "assize.db-grant-worker/1"

_file = click.Path(path_type=Path, dir_okay=False)
_folder = click.Path(path_type=Path, file_okay=False)


@click.group(
    "db",
    short_help="The ledger's database: schema, backup, moving, roles.",
    epilog="Next: assize db current, assize doctor.",
)
def command() -> None:
    """The database of the ledger: an SQLite file in the home, or PostgreSQL named by ASSIZE_DATABASE_URL.

    A URL with a password is kept in a file that ASSIZE_DATABASE_URL_FILE names.

    \b
    Examples:
      assize db current
      assize db backup /backups/2026-11-30
    """


@contextmanager
def _as_it_is(home: Home) -> Iterator[Ledger]:
    """The ledger without any change to its schema; `NotFoundError` where there is none yet."""
    path = sqlite_file(home.database_url)
    if path is not None and not path.exists():
        raise NotFoundError(f"there is no ledger at {path} yet", hint="the first screening makes one")
    ledger = Ledger(create_engine(home.database_url))
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def _opened(home: Home) -> Iterator[Ledger]:
    """The ledger, with the schema of this version."""
    with _as_it_is(home):
        ledger = migrate.open_ledger(home.database_url)
    try:
        yield ledger
    finally:
        ledger.close()


@command.command("current", epilog="Next: assize db upgrade, assize db check.")
@json_option
@click.pass_context
def current(context: click.Context, as_json: bool) -> None:
    """Where the ledger is and which schema it has; a password is not shown.

    Exit 1 when it is not the schema of this version.

    \b
    Examples:
      assize db current
      assize db current --json
    """
    with _as_it_is(home_of(context)) as ledger:
        found = migrate.current(ledger)
        if as_json:
            emit(CURRENT_SCHEMA, {"url": ledger.url, "schema_found": found, "schema_needed": migrate.HEAD})
        else:
            click.echo(cell(f"{ledger.url}: schema {found or 'absent'}, this version needs {migrate.HEAD}"))
    context.exit(exits.DONE if found == migrate.HEAD else exits.REFUSED)


@command.command("upgrade", epilog="Next: assize db check, assize doctor.")
@json_option
@click.pass_context
def upgrade(context: click.Context, as_json: bool) -> None:
    """Bring the schema to this version, and triggers, byte order and worker roles with it; safe to repeat.

    An SQLite file is copied first, if its schema changes. PostgreSQL is never upgraded without this
    command: take a backup before.

    \b
    Examples:
      assize db upgrade
      assize db upgrade --json
    """
    home = home_of(context).prepare()
    copy = migrate.upgrade(home.database_url)
    if as_json:
        emit(UPGRADE_SCHEMA, {"schema": migrate.HEAD, "copy": None if copy is None else str(copy)})
        return
    click.echo(f"schema {migrate.HEAD}, all rules in place")
    if copy is not None:
        click.echo(cell(f"copy of the file as it was: {copy}"))


@command.command("check", epilog="Next: assize db upgrade, assize db backup DIR.")
@json_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Compare the database with what this version needs: tables, constraints, triggers, and all invariants.

    Exit 1 when something differs; nothing is changed.

    \b
    Examples:
      assize db check
      assize db check --json
    """
    with _as_it_is(home_of(context)) as ledger:
        found = migrate.current(ledger)
        if found != migrate.HEAD:
            problems = [f"the schema is {found or 'absent'}, this version needs {migrate.HEAD}"]
        else:
            with ledger.reading() as connection:
                problems = [f"missing: {one}" for one in missing_rules(connection)]
            problems += [f"differs from the models: {one}" for one in migrate.check(ledger)]
            problems += [f"invariant {one.number}: {one.message}" for one in invariants.violations(ledger)]
    if as_json:
        emit(CHECK_SCHEMA, {"schema_found": found, "problems": problems})
    else:
        for problem in problems:
            click.echo(cell(problem))
        click.echo(f"{len(problems)} problems" if problems else "no drift, all rules and invariants hold")
    context.exit(exits.REFUSED if problems else exits.DONE)


@command.command("backup", epilog="Next: assize db restore DIR, assize doctor --after-restore.")
@click.argument("directory", type=_folder, metavar="DIR")
@click.option("--evidence", "with_evidence", is_flag=True, help="Copy the evidence store too.")
@json_option
@click.pass_context
def backup(context: click.Context, directory: Path, with_evidence: bool, as_json: bool) -> None:
    """Back the ledger and the log up into DIR, which must be new or empty; screenings may go on meanwhile.

    DIR/manifest.json names every file with its digest and every evidence manifest of the ledger. Without
    --evidence the store is named, not copied: back it up after this command, it only ever grows. Keys are
    no part of it.

    \b
    Examples:
      assize db backup /backups/2026-11-30
      assize db backup ./copy --evidence --json
    """
    home = home_of(context)
    with _opened(home) as ledger:
        made = making.make(home, ledger, directory, with_evidence=with_evidence)
    if as_json:
        emit(BACKUP_SCHEMA, {"directory": str(directory), **made.model_dump(mode="json", by_alias=False)})
        return
    click.echo(cell(f"{directory}: {made.kind} ledger, {sum(made.counts.values())} rows"))
    click.echo(
        f"{len(made.files)} files of log and trust root, {len(made.manifests)} evidence manifests named"
    )
    if not with_evidence:
        click.echo(cell(f"now copy {home.evidence}: the evidence was not copied"))


@command.command("restore", epilog="Next: assize doctor --after-restore.")
@click.argument("directory", type=_folder, metavar="DIR")
@json_option
@click.pass_context
def restore(context: click.Context, directory: Path, as_json: bool) -> None:
    """Bring a backup into a home without a ledger, or into an empty PostgreSQL database.

    Every file of the backup is hashed first. Nothing that is there is overwritten: a log or evidence that
    the home still has stays.

    \b
    Examples:
      assize db restore /backups/2026-11-30
      assize db restore ./copy --json
    """
    home = home_of(context)
    done = restoring.restore(home, directory)
    if as_json:
        data = {"put_back": done.put_back, "left": done.left, "evidence": done.evidence}
        emit(RESTORE_SCHEMA, {"directory": str(directory), "counts": done.backup.counts, **data})
        return
    click.echo(f"{sum(done.backup.counts.values())} rows, {done.put_back} files of log and trust root")
    if done.left:
        click.echo(f"{done.left} files of the home's own log were left as they are")
    click.echo(f"{done.evidence} files of evidence")
    say("now run `assize doctor --after-restore`")


@command.command("copy", epilog="Next: assize db check with the new ASSIZE_DATABASE_URL.")
@click.option("--to", "target", metavar="URL", help="Database to copy to, a URL without password.")
@click.option("--to-file", "target_file", type=_file, metavar="FILE", help="File that holds the URL.")
@json_option
@click.pass_context
def copy(context: click.Context, target: str | None, target_file: Path | None, as_json: bool) -> None:
    """Move the ledger to another, empty database: from SQLite to PostgreSQL, or back.

    The target gets the schema of this version, every row in the order of the foreign keys, and is read back
    and compared. Nothing may be running. The source stays as it is and must not be used any more.

    \b
    Examples:
      assize db copy --to-file /run/secrets/database-url
      assize db copy --to sqlite:////home/me/ledger.db
    """
    url = _target(target, target_file)
    with _opened(home_of(context)) as source:
        if parse_url(url) == source.engine.url:
            raise UsageError("the target is the database that the ledger is in already")
        migrate.upgrade(url)
        sink = migrate.open_ledger(url)
        try:
            moved = transfer.copy(source, sink, say)
            place = sink.url
        finally:
            sink.close()
    if as_json:
        emit(COPY_SCHEMA, {"target": place, "counts": moved.counts})
        return
    click.echo(cell(f"{sum(moved.counts.values())} rows are in {place}, read back and compared"))
    say("from now on name it with ASSIZE_DATABASE_URL (or _FILE), and put the old database away")


def _target(target: str | None, target_file: Path | None) -> str:
    if (target is None) == (target_file is None):
        raise UsageError("name the target with --to or with --to-file")
    if target_file is not None:
        return read_secret(target_file, "--to-file")
    if parse_url(str(target)).password is not None:
        raise UsageError(
            "a command line is no place for a password: every user of this machine can read it",
            hint="put the URL into a file that only you can read, and use --to-file FILE",
        )
    return str(target)


@command.command("grant-worker", epilog="Next: assize db check; the workers' URL names this role.")
@click.argument("role")
@click.option("--password-file", type=_file, metavar="FILE", help="Create the role with this password.")
@json_option
@click.pass_context
def grant_worker(context: click.Context, role: str, password_file: Path | None, as_json: bool) -> None:
    """Give a PostgreSQL role exactly what a worker needs: no certificates, no history, no schema.

    It can claim, beat, record and close; it cannot write certificates, change what has ended, or touch a
    trigger. Upgrades repeat the grants.

    \b
    Examples:
      assize db grant-worker assize_worker --password-file /run/secrets/worker-password
      assize db grant-worker assize_worker
    """
    password = None if password_file is None else read_secret(password_file, "--password-file")
    with _opened(home_of(context)) as ledger:
        created = roles.grant_worker(ledger, role, password=password)
    if as_json:
        emit(GRANT_SCHEMA, {"role": role, "created": created})
    else:
        click.echo(cell(f"role {role} {'created, ' if created else ''}has the rights of a worker"))
