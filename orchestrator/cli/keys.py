"""`assize keys`: the life of a home's keys and of its trust root, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from orchestrator.cli import exits, keys_change, keys_draft, keys_files, keys_text
from orchestrator.cli.output import cell, emit, home_of, json_option
from orchestrator.custody import passphrase
from orchestrator.custody.affected import affected
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.status import status
from orchestrator.ledger import queries
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.recertify import recertify, renew_notice

STATUS_SCHEMA: Final = "assize.keys-status/1"
EXPORT_SCHEMA: Final = "assize.keys-export/1"
RECERTIFY_SCHEMA: Final = "assize.keys-recertify/1"
NOTICE: Final = "notice"
AFFECTED_SCHEMA: Final = "assize.keys-affected/1"


@click.group(
    "keys",
    short_help="Keys and trust root: ceremony, rotation, revocation.",
    epilog="Next: assize keys status, docs/keys.md.",
)
def command() -> None:
    """The keys of this home and the trust root that says what they may sign.

    Every change is a draft first: it is shown, signed by root keys (here or on other machines) and can be
    discarded. Only `publish` makes it the trust root, and that is for good.

    \b
    Examples:
      assize keys status
      assize keys rotate
    """


@command.command(
    "status", short_help="Versions, keys, draft, and what comes next.", epilog="Next: assize doctor."
)
@json_option
@click.pass_context
def status_(context: click.Context, as_json: bool) -> None:
    """Show versions of the trust root, keys with their positions and dates, logs, and the draft in progress.

    \b
    Examples:
      assize keys status
      assize keys status --json
    """
    custodian = Custodian(home_of(context))
    found = status(custodian)
    if as_json:
        known = passphrase.path_of(custodian.home.keys)
        emit(
            STATUS_SCHEMA,
            {**keys_text.status_data(found), "passphrase": None if known is None else str(known)},
        )
    else:
        click.echo("\n".join(map(cell, keys_text.status_lines(found))))


@command.command(
    "export",
    short_help="Trust root and its later versions, to publish.",
    epilog="Next: assize verify BUNDLE.",
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@json_option
@click.pass_context
def export(context: click.Context, folder: Path, as_json: bool) -> None:
    """Write every version of the trust root to FOLDER and print the pin, the hash of version 1.

    Publish the files, and the pin in as many other places as you can: readers trust that one number.

    \b
    Examples:
      assize keys export ./public
      assize keys export ./public --json
    """
    custodian = Custodian(home_of(context))
    newest = custodian.trust_root()
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for version in range(1, newest.version + 1):
        path = folder / custodian.roots.path(version).name
        custodian.disk.publish(str(path), custodian.roots.raw(version))
        files.append(str(path))
    found = status(custodian)
    data = {"version": newest.version, "pin": found.pin, "sha256": newest.sha256, "files": files}
    if as_json:
        emit(EXPORT_SCHEMA, data)
        return
    options = " ".join(f"--trust-root {path}" for path in files)
    click.echo("\n".join(map(cell, [*files, f"pin     {found.pin}", f"newest  version {newest.version}"])))
    click.echo(cell(f"verify with: assize verify BUNDLE {options} --pin {found.pin}"))


@command.command(
    "affected", short_help="Certificates beyond a revocation.", epilog="Next: assize keys status."
)
@click.argument("key", required=False)
@json_option
@click.pass_context
def affected_(context: click.Context, key: str | None, as_json: bool) -> None:
    """List what a revoked key signed at or after the entry it is revoked from: that does not verify any more.

    KEY is a key id or the beginning of one; without it every revoked key is looked at. What was certified
    again since is listed too, and said to be. Exit 0 when nothing is left to be certified again, 3 otherwise.

    \b
    Examples:
      assize keys affected
      assize keys affected 7d41ab --json
    """
    custodian = Custodian(home_of(context))
    keyid = None if key is None else keys_change.certificate_key(custodian, key)
    rows = affected(custodian, keyid)
    if as_json:
        emit(AFFECTED_SCHEMA, {"affected": [vars(row) for row in rows]})
    else:
        click.echo("\n".join(map(cell, keys_text.affected_lines(rows))))
    left = any(not row.renewed for row in rows)
    context.exit(exits.NOT_IN_FULL if left else exits.DONE)


@command.command(
    "recertify", short_help="Sign again what a revocation hit.", epilog="Next: assize verify BUNDLE."
)
@click.argument("screenings", nargs=-1, metavar="[SCREENING]...")
@json_option
@click.pass_context
def recertify_(context: click.Context, screenings: tuple[str, ...], as_json: bool) -> None:
    """Certify screenings again with the key that signs now: by default every one that a revocation hit.

    The evidence of every try is gone through again before it is signed. Places in a log are taken for ever,
    so a new log has to be open: `assize keys new-log`, best in the same draft as the revocation.

    \b
    Examples:
      assize keys recertify
      assize keys recertify 01JAB4 --json
    """
    custodian = Custodian(home_of(context))
    rows = affected(custodian)
    named = screenings or tuple(dict.fromkeys(row.screening for row in rows if row.kind != NOTICE))
    listed = [custodian.home.log / row.file for row in rows if row.kind == NOTICE and not screenings]
    installation = Installation.open(custodian.home)
    try:
        known = [queries.find_screening(installation.ledger, name) for name in named]
        # Notices first: the bundles that are written next list them.
        notices = [renew_notice(installation, path.read_bytes()) for path in listed]
        done = [recertify(installation, one) for one in known]
    finally:
        installation.close()
    if as_json:
        told = [{**vars(one), "bundle": str(one.bundle)} for one in done]
        emit(RECERTIFY_SCHEMA, {"recertified": told, "notices": notices})
        return
    for one in done:
        click.echo(cell(f"{one.screening}: {one.statements} statements certified again, {one.bundle}"))
    for digest in notices:
        click.echo(cell(f"notice {digest[:16]} logged again"))
    if not done and not notices:
        click.echo("nothing is affected by a revocation")


for _module in (keys_change, keys_draft, keys_files):
    for _one in _module.COMMANDS:
        command.add_command(_one)
