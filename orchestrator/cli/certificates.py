"""`assize certificates`: show one, export bundles for strangers, notice what was certified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, cast

import click

from orchestrator.certificates.schema import KEY_EVENTS, NOTICE_KINDS
from orchestrator.cli import exits
from orchestrator.cli.certificate_text import certificate_data, certificate_lines
from orchestrator.cli.output import call_of, cell, emit, facts, home_of, json_option, say
from orchestrator.cli.reading import reading
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.home import Home
from orchestrator.screenings import exporting, noticing
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.lookup import find, opening_of

SHOW_SCHEMA: Final = "assize.certificates-show/1"
EXPORT_SCHEMA: Final = "assize.certificates-export/1"
NOTICE_SCHEMA: Final = "assize.certificates-notice/1"
_ATTEMPT: Final = click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="This attempt of a try. [default: the newest]"
)


@click.group(
    "certificates",
    short_help="Certificates: show, export, notice.",
    epilog="Next: assize certificates show TRY.",
)
def command() -> None:
    """What was certified: read one, hand bundles to others, and say in public what is wrong with one.

    A certificate is named by its digest or id, by its try or attempt; a screening stands for all of its own.

    \b
    Examples:
      assize certificates show 01JAB4
      assize certificates export 01JAB4 --out screening.zip
    """


def _open(context: click.Context) -> Installation:
    """The installation of a home in which something was screened; none is created by looking."""
    with reading(context) as found:
        if found.ledger is None:
            raise NotFoundError(
                f"nothing was screened in {found.home.root} yet", hint="assize screen PACK --agent AGENT"
            )
    home: Home = home_of(context)
    return Installation.open(home)


@command.command("show", epilog="Next: assize certificates export TARGET, assize verify FILE.")
@click.argument("target")
@_ATTEMPT
@json_option
@click.pass_context
def show(context: click.Context, target: str, attempt: int | None, as_json: bool) -> None:
    """Verify and print one certificate: TARGET is a digest, an id, a try or an attempt.

    A screening stands for its opening statement. Exit codes are those of `assize verify`: 3 for what is
    authentic and does not count.

    \b
    Examples:
      assize certificates show 01JAB4 --attempt 1
      assize certificates show 7d41e6a0 --json
    """
    installation = _open(context)
    try:
        meant = find(installation.ledger, target, attempt)
        stored = meant.certificate or opening_of(installation.ledger, meant.screening_id)
        data = certificate_data(installation, stored)
    finally:
        installation.close()
    if as_json:
        emit(SHOW_SCHEMA, data)
    else:
        for line in certificate_lines(data):
            click.echo(cell(line))
    context.exit(data["verification"]["exit"])


@command.command("export", epilog="Next: assize verify FILE --trust-root trust-root.json.")
@click.argument("target")
@_ATTEMPT
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File or folder. [default: named by the ids]",
)
@click.option(
    "--everything", is_flag=True, help="A folder: bundles of the screening and each try, trust root."
)
@click.option("--evidence", is_flag=True, help="The evidence too, as a store; implies --everything.")
@json_option
@click.pass_context
def export(
    context: click.Context,
    target: str,
    attempt: int | None,
    out: Path | None,
    everything: bool,
    evidence: bool,
    as_json: bool,
) -> None:
    """Write a bundle for others: TARGET is a screening, or a certificate (a digest, an id, a try).

    Every bundle carries its log proofs under the newest checkpoint and all notices about it. Withheld files
    (hidden tests) are never exported. An older export is replaced, any other file is left alone.

    \b
    Examples:
      assize certificates export 01JAB4 --evidence --out for-the-agents-owner
      assize certificates export 7d41e6a0 --out one.trybundle.json
    """
    installation = _open(context)
    try:
        meant = find(installation.ledger, target, attempt)
        if everything or evidence:
            done = exporting.export_folder(installation, meant, out, evidence=evidence)
        else:
            done = exporting.export_file(installation, meant, out)
    finally:
        installation.close()
    data = {
        "screening": meant.screening_id,
        "files": [str(path) for path in done.files],
        "evidence": done.evidence if evidence else None,
        "withheld": done.withheld if evidence else None,
        "missing": done.missing,
    }
    if as_json:
        emit(EXPORT_SCHEMA, data)
    else:
        for path in done.files:
            click.echo(str(path))
        if evidence:
            told = f"evidence: {done.evidence} files copied, {done.withheld} withheld"
            say(f"{told}, {len(done.missing)} missing from the store")
    context.exit(exits.NOT_IN_FULL if done.missing else exits.DONE)


@command.command("notice", epilog="Next: assize certificates export SCREENING, assize verify FILE.")
@click.argument("target")
@click.option("--kind", type=click.Choice(NOTICE_KINDS), required=True, help="What the notice says.")
@click.option("--reason", required=True, metavar="TEXT", help="Why: one line, published as it is.")
@click.option("--replaced-by", metavar="TARGET", help="Certificate in its place, for a supersession.")
@click.option("--event", type=click.Choice(KEY_EVENTS), help="What happened to the key, for a key-event.")
@_ATTEMPT
@click.option("--dry-run", is_flag=True, help="Show the statement; sign and log nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def notice(context: click.Context, /, dry_run: bool, yes: bool, as_json: bool, **asked: Any) -> None:
    """Sign and log a notice about TARGET: a certificate, a whole screening, or a key (by its key id).

    supersession and contamination withdraw a pass; a failure stays a failure. correction and key-event are
    read and change nothing. A notice cannot be taken back. The same one again changes nothing.

    \b
    Examples:
      assize certificates notice 01JAB4 --kind contamination --reason "task text was public" --dry-run
      assize certificates notice 7d41e6a0 --kind supersession --reason "graded again" --replaced-by 99e0c2
    """
    installation = _open(context)
    try:
        drafted = noticing.draft(installation, noticing.Request(**asked))
        statement = drafted.statement.as_data()
        if dry_run:
            _show_draft(drafted, statement, as_json=as_json)
            return
        if not yes:
            _confirm(drafted, asked)
        issued = noticing.issue(installation, drafted)
    finally:
        installation.close()
    data = {**vars(issued), "about": drafted.about, "kind": asked["kind"], "screening": drafted.screening_id}
    if as_json:
        emit(NOTICE_SCHEMA, {"dryRun": False, **data})
        return
    state = "logged" if issued.fresh else "was logged before"
    click.echo(cell(f"{asked['kind']} about {drafted.about}"))
    click.echo(f"{state} as entry {issued.index} of {issued.origin}, notice {issued.digest}")
    if drafted.screening_id is not None:
        click.echo(f"next: {call_of(context)} certificates export {drafted.screening_id}")


def _show_draft(drafted: noticing.Drafted, statement: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        data = {"dryRun": True, "about": drafted.about, "statement": statement}
        emit(NOTICE_SCHEMA, {**data, "screening": drafted.screening_id})
        return
    body = cast("dict[str, Any]", statement["predicate"])
    rows = [
        ("about", drafted.about),
        ("subject", f"{statement['subject'][0]['name']} {drafted.statement.subject_sha256}"),
        ("kind", body["kind"]),
        ("reason", body["reason"]),
        ("issuer", body["issuer"]),
        ("notice id", body["statementId"]),
    ]
    if body["replacedBy"] is not None:
        rows.append(("replaced by", body["replacedBy"]["sha256"]))
    for line in facts(rows):
        click.echo(line)
    say("nothing was signed or logged (--dry-run)")


def _confirm(drafted: noticing.Drafted, asked: dict[str, Any]) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "a notice is published for good and nobody can be asked here",
            hint="--dry-run shows it, --yes issues it",
        )
    say(f"{asked['kind']} about {drafted.about}: {asked['reason']}")
    click.confirm("It is published for good. Sign and log it?", abort=True, err=True)
