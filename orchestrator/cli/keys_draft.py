"""The steps of `assize keys` on a draft: sign, merge, discard, publish."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from orchestrator.cli.keys_text import draft_lines, show_announced, show_draft
from orchestrator.cli.output import cell, emit, home_of, json_option, say
from orchestrator.custody import draft as drafts
from orchestrator.custody import passphrase, publishing
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.draft import Draft
from orchestrator.custody.keyring import load_holder
from orchestrator.errors import UsageError
from orchestrator.log.files import Disk
from orchestrator.screenings.key_events import announce_revoked

PUBLISH_SCHEMA: Final = "assize.keys-publish/1"
DISCARD_SCHEMA: Final = "assize.keys-discard/1"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
passphrase_option = click.option(
    "--passphrase-file",
    type=_FILE,
    metavar="FILE",
    help="Passphrase of the key file. [env: ASSIZE_KEY_PASSPHRASE_FILE]",
)


def named_passphrase(option: Path | None) -> Path | None:
    """The passphrase file of the option or of the environment."""
    named = os.environ.get(passphrase.VARIABLE)
    return option or (Path(named) if named else None)


def ask(question: str, yes: bool) -> None:
    """Go on only when a person or `--yes` says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here", hint="say --yes once you have read what would be done")
    if not click.confirm(question, err=True):
        raise UsageError("not confirmed; nothing was changed")


def read_draft(path: Path) -> Draft:
    """The draft in a file."""
    try:
        with path.open("rb") as file:
            return drafts.parse(file.read(drafts.LIMIT_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


@click.command("sign", short_help="Sign a draft with a root key.", epilog="Next: assize keys publish.")
@click.argument("draft", type=_FILE, required=False)
@click.option(
    "--key", type=_FILE, metavar="FILE", help="Key file, or *.command.json for a key behind a program."
)
@click.option("--out", type=_FILE, metavar="FILE", help="Where to write the signed draft. [default: DRAFT]")
@passphrase_option
@yes_option
@json_option
@click.pass_context
def sign(
    context: click.Context,
    draft: Path | None,
    key: Path | None,
    out: Path | None,
    passphrase_file: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what a draft changes, ask, and sign it with a root key.

    With DRAFT and --key it works on any machine, without a home. Without them the draft of this home is
    signed with every root key that is here. Compare the sha256 of the version before it with what is
    published: that is what the new version is trusted through.

    \b
    Examples:
      assize keys sign draft.json --key alice.pem --passphrase-file alice.txt
      assize keys sign --yes
    """
    if (draft is None) != (key is None):
        raise UsageError("name the draft and --key, or neither for the draft and the keys of this home")
    if draft is not None and key is not None:
        _sign_file(draft, key, out or draft, named_passphrase(passphrase_file), yes, as_json)
        return
    custodian = Custodian(home_of(context))
    found = custodian.some_draft()
    _show(found)
    ask("Sign this with the root keys of this home?", yes)
    found, signed = publishing.sign_here(custodian)
    told = f"signed by {', '.join(signed)}" if signed else "no further root key of this draft is here"
    show_draft(found, str(custodian.draft_path), told, as_json=as_json, more={"signed": signed})


def _show(found: Draft) -> None:
    """What would be signed, on standard error: the answer of the command is the signed draft."""
    for line in draft_lines(found, found.described()):
        say(line)


def _sign_file(
    path: Path, key: Path, out: Path, passphrase_file: Path | None, yes: bool, as_json: bool
) -> None:
    found, holder = read_draft(path), load_holder(key, passphrase_file)
    _show(found)
    ask(f"Sign this with key {holder.keyid}?", yes)
    found = found.signed_by(holder)
    Disk().publish(str(out.absolute()), found.encode())
    told = f"signed by {holder.keyid}: {out}"
    show_draft(found, str(out), told, as_json=as_json, more={"signed": [holder.keyid]}, elsewhere=True)


@click.command("merge", short_help="Collect signatures of a draft.", epilog="Next: assize keys publish.")
@click.argument("files", nargs=-1, required=True, type=_FILE)
@json_option
@click.pass_context
def merge(context: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Take the signatures of copies of the draft that were signed elsewhere.

    \b
    Examples:
      assize keys merge draft-alice.json
      assize keys merge draft-alice.json draft-bob.json --json
    """
    custodian = Custodian(home_of(context))
    found = publishing.merge(custodian, [read_draft(path) for path in files])
    show_draft(found, str(custodian.draft_path), "signatures collected", as_json=as_json)


@click.command("discard", short_help="Take the draft back.", epilog="Next: assize keys status.")
@yes_option
@json_option
@click.pass_context
def discard(context: click.Context, yes: bool, as_json: bool) -> None:
    """Take the draft back: nothing of it was published. Keys that it froze sign again.

    \b
    Examples:
      assize keys discard
      assize keys discard --yes --json
    """
    custodian = Custodian(home_of(context))
    ask("Discard the draft and the signatures on it?", yes)
    done = publishing.discard(custodian)
    if as_json:
        emit(DISCARD_SCHEMA, vars(done))
        return
    click.echo(f"the draft of version {done.version} is gone")
    for keyid in done.thawed:
        click.echo(f"key {keyid} signs again")
    for keyid in done.unlisted:
        click.echo(f"key {keyid} was made for it and is in no trust root: assize keys destroy {keyid[:8]}")


@click.command(
    "publish", short_help="Make the draft the trust root, for good.", epilog="Next: assize keys export."
)
@yes_option
@json_option
@click.pass_context
def publish(context: click.Context, yes: bool, as_json: bool) -> None:
    """Check the draft as a verifier does, and make it the trust root of this home. There is no way back.

    Revocations in it are then logged as notices; for a verifier the trust root alone decides.

    \b
    Examples:
      assize keys publish
      assize keys publish --yes --json
    """
    custodian = Custodian(home_of(context))
    found = custodian.draft()
    if found is not None:
        found.finished()  # what is missing is said before anybody is asked
        _show(found)
        ask(f"Publish version {found.version}? This cannot be undone.", yes)
    done = publishing.publish(custodian)
    path = custodian.roots.path(done.version)
    told = announce_revoked(custodian.home, done)
    if as_json:
        data = {"version": done.version, "sha256": done.sha256, "file": str(path)}
        emit(PUBLISH_SCHEMA, {**data, "notices": [vars(one) for one in told]})
        return
    click.echo(cell(f"version {done.version} is the trust root: {path}"))
    click.echo(f"sha256  {done.sha256}")
    show_announced(told)
    say("next: assize keys export DIR, and put the files where your readers find them")


COMMANDS: Final = (sign, merge, discard, publish)
