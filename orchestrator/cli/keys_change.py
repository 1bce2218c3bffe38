"""The steps of `assize keys` that draft a change: ceremony, rotate, close, revoke, new-log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from orchestrator.cli.keys_text import show_draft
from orchestrator.cli.output import emit, home_of, json_option, say
from orchestrator.custody import changes, public_line, steps
from orchestrator.custody.custodian import Custodian
from orchestrator.errors import NotFoundError, UsageError
from orchestrator.screenings.installation import DEFAULT_ISSUER, ISSUER_VARIABLE

REVOKE_SCHEMA: Final = "assize.keys-revoke/1"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


def matching(ids: list[str], text: str, what: str) -> str:
    """The one id that begins with `text`; raises `NotFoundError`."""
    found = [one for one in ids if one.startswith(text)]
    if len(found) != 1:
        raise NotFoundError(
            f"{len(found)} keys begin with {text}" if found else f"there is no {what} {text}",
            hint="assize keys status lists them",
        )
    return found[0]


def certificate_key(custodian: Custodian, text: str) -> str:
    """The id of a certificate key of the current trust root, by its beginning."""
    return matching(list(custodian.trust_root().keys), text, "certificate key")


def held_key(custodian: Custodian, text: str) -> str:
    """The id of a key whose file is here, by its beginning."""
    return matching([one.keyid for one in custodian.keyring.entries() if one.keyid], text, "key in this home")


@click.command("ceremony", short_help="Draft root keys and threshold.", epilog="Next: assize keys sign.")
@click.option(
    "--root",
    "files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Public line of a root key (`assize keys new root`); once per key.",
)
@click.option("--generate", type=click.IntRange(1, 16), metavar="N", help="Make N root keys in this home.")
@click.option("--threshold", type=click.IntRange(1, 4), metavar="M", help="How many root keys must sign.")
@click.option("--issuer", metavar="NAME", help="Issuer of a new home. [env: ASSIZE_ISSUER]")
@click.option("--certificate-key", metavar="KEY", help="New home: use this held key, make none.")
@click.option("--log-key", metavar="KEY", help="New home: use this held key for the log, make none.")
@click.option("--witness-policy", type=_FILE, metavar="FILE", help="Witness policy (C2SP tlog-policy).")
@json_option
@click.pass_context
def ceremony(
    context: click.Context,
    files: tuple[Path, ...],
    generate: int | None,
    threshold: int | None,
    issuer: str | None,
    certificate_key: str | None,
    log_key: str | None,
    witness_policy: Path | None,
    as_json: bool,
) -> None:
    """Draft a trust root with these root keys: version 1 of a new home, or the next version of this one.

    Without --root and --generate the root keys stay and only the dates are renewed. A changed root set needs
    the signatures of the old one and of the new one.

    \b
    Examples:
      assize keys ceremony --root alice.pub --root bob.pub --root carol.pub --threshold 2
      assize keys ceremony
    """
    custodian = Custodian(home_of(context))
    publics = [public_line.read(path, "root") for path in files]
    if generate:
        with custodian.at_work():
            phrase = custodian.provide_passphrase()
            publics += [custodian.keyring.generate(phrase).public for _ in range(generate)]
    held = [None if text is None else held_key(custodian, text) for text in (certificate_key, log_key)]
    draft = steps.ceremony(
        custodian,
        publics,
        threshold,
        issuer=issuer or os.environ.get(ISSUER_VARIABLE) or DEFAULT_ISSUER,
        certificate=held[0],
        log=held[1],
        witness_policy=None if witness_policy is None else _text(witness_policy),
    )
    show_draft(
        draft, str(custodian.draft_path), "drafted: the root keys and their threshold", as_json=as_json
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


@click.command("rotate", short_help="Draft a new certificate key.", epilog="Next: assize keys sign.")
@click.option("--at", type=click.IntRange(0), metavar="INDEX", help="Log entry from which the new key signs.")
@click.option("--to", metavar="KEY", help="Use this held key (`assize keys command`), make none.")
@json_option
@click.pass_context
def rotate(context: click.Context, at: int | None, to: str | None, as_json: bool) -> None:
    """Draft a new certificate key that signs from entry INDEX on (default: 16 entries from now).

    The old key goes on until then, and the writer changes keys by itself at that entry. After that:
    `assize keys close OLD`, publish, `assize keys destroy OLD`.

    \b
    Examples:
      assize keys rotate
      assize keys rotate --at 5000 --to 7d41ab
    """
    custodian = Custodian(home_of(context))
    draft = steps.rotate(custodian, at=at, to=None if to is None else held_key(custodian, to))
    show_draft(draft, str(custodian.draft_path), "drafted: a new certificate key", as_json=as_json)


@click.command("close", short_help="Draft the end of a rotated key.", epilog="Next: assize keys sign.")
@click.argument("key")
@json_option
@click.pass_context
def close(context: click.Context, key: str, as_json: bool) -> None:
    """Draft the end of certificate key KEY, where its successor took over; what it signed stays good.

    \b
    Examples:
      assize keys close 7d41ab
      assize keys close 7d41ab --json
    """
    custodian = Custodian(home_of(context))
    draft = steps.close(custodian, certificate_key(custodian, key))
    show_draft(draft, str(custodian.draft_path), "drafted: the end of the old key", as_json=as_json)


@click.command(
    "revoke", short_help="Freeze a key now, draft its revocation.", epilog="Next: assize keys sign."
)
@click.argument("key")
@click.option(
    "--from-index", type=click.IntRange(0), metavar="I", help="First log entry that is not trusted any more."
)
@click.option(
    "--reason", type=click.Choice(changes.REASONS), default="compromise", show_default=True, help="Why."
)
@click.option("--undo", is_flag=True, help="Let the key sign again; only before a revocation is drafted.")
@json_option
@click.pass_context
def revoke(
    context: click.Context, key: str, from_index: int | None, reason: str, undo: bool, as_json: bool
) -> None:
    """Freeze certificate key KEY at once, and draft that nothing it signed from entry I on is trusted.

    From this moment the key signs nothing, also in the middle of a screening. Where no other key could sign,
    a new one is drafted. After publication `assize keys affected` lists what lies beyond the entry.

    \b
    Examples:
      assize keys revoke 7d41ab --from-index 502000
      assize keys revoke 7d41ab --from-index 502000 --reason loss --json
    """
    custodian = Custodian(home_of(context))
    keyid = certificate_key(custodian, key)
    if undo:
        _undo(custodian, keyid)
        if as_json:
            emit(REVOKE_SCHEMA, {"thawed": keyid})
        else:
            say(f"key {keyid} signs again")
        return
    if from_index is None:
        raise UsageError("--from-index is missing", hint="the first log entry that is in doubt")
    draft = steps.revoke(custodian, keyid, from_index, reason)
    told = f"frozen: key {keyid} signs nothing any more; drafted: its revocation from entry {from_index}"
    show_draft(draft, str(custodian.draft_path), told, as_json=as_json, more={"frozen": keyid})


def _undo(custodian: Custodian, keyid: str) -> None:
    with custodian.at_work():
        if custodian.draft() is not None:
            raise UsageError(
                "a draft is in progress", hint="assize keys discard takes it back and thaws its keys"
            )
        if not custodian.keyring.thaw(keyid):
            raise UsageError(f"key {keyid} is not frozen")


@click.command(
    "new-log", short_help="Draft the end of a log and a new one.", epilog="Next: assize keys sign."
)
@click.option("--origin", metavar="NAME", help="Name of the new log. [default: that of the year]")
@click.option("--log-key", metavar="KEY", help="Use this held key for the new log, make none.")
@json_option
@click.pass_context
def new_log(context: click.Context, origin: str | None, log_key: str | None, as_json: bool) -> None:
    """End the log that is written to, and draft a new one: for a new year, or when its key is lost.

    Nothing is certified from now until the draft is published or discarded: the size at which the old log
    ends is part of what the root keys sign. The new log has keys of its own, and its first entry commits to
    the last checkpoint of the old one.

    \b
    Examples:
      assize keys new-log
      assize keys new-log --origin lab.example/log/2027
    """
    custodian = Custodian(home_of(context))
    held = None if log_key is None else held_key(custodian, log_key)
    draft = steps.new_log(custodian, origin, held)
    told = "frozen: nothing is certified until this is published or discarded; drafted: a new log"
    show_draft(draft, str(custodian.draft_path), told, as_json=as_json)


COMMANDS: Final = (ceremony, rotate, close, revoke, new_log)
