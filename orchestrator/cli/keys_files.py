"""The steps of `assize keys` on key files: new, command, encrypt, destroy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from orchestrator.certificates.keys import SigningKey
from orchestrator.cli.keys_change import held_key
from orchestrator.cli.keys_draft import ask, named_passphrase, passphrase_option, yes_option
from orchestrator.cli.keys_text import show_announced
from orchestrator.cli.output import cell, emit, home_of, json_option, say
from orchestrator.custody import command_key, passphrase, public_line, publishing
from orchestrator.custody.command_key import CommandKey
from orchestrator.custody.custodian import Custodian
from orchestrator.errors import UsageError
from orchestrator.log.files import Disk
from orchestrator.screenings.key_events import announce_destroyed

NEW_SCHEMA: Final = "assize.keys-new/1"
COMMAND_SCHEMA: Final = "assize.keys-command/1"
ENCRYPT_SCHEMA: Final = "assize.keys-encrypt/1"
DESTROY_SCHEMA: Final = "assize.keys-destroy/1"
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


@click.command("new", short_help="Make a key on any machine.", epilog="Next: assize keys ceremony.")
@click.argument("role", type=click.Choice(public_line.ROLES))
@click.option("--out", type=_FILE, required=True, metavar="FILE", help="New private key file, encrypted.")
@passphrase_option
@json_option
def new(role: str, out: Path, passphrase_file: Path | None, as_json: bool) -> None:
    """Make a key for ROLE: an encrypted private file, and beside it FILE.pub with its public line.

    Needs no home: a root key is best made, and kept, on a machine of its own. The public line is what
    travels.

    \b
    Examples:
      assize keys new root --out alice.pem --passphrase-file alice.txt
      assize keys new root --out bob.pem --passphrase-file bob.txt --json
    """
    named = named_passphrase(passphrase_file)
    if named is None:
        raise UsageError(
            "a key that leaves this program is encrypted, and no passphrase is named",
            hint="openssl rand -base64 32 > FILE; chmod 600 FILE; then --passphrase-file FILE",
        )
    key = SigningKey.generate()
    key.save(out, named)
    told = public_line.line(key.public, role)
    public = out.with_name(out.name + ".pub")
    Disk().publish(str(public.absolute()), told.encode() + b"\n")
    if as_json:
        data = {"role": role, "keyid": key.keyid, "file": str(out), "public_file": str(public), "line": told}
        emit(NEW_SCHEMA, data)
        return
    click.echo(told)
    say(f"private  {out} (encrypted by the passphrase in {named}; keep both, apart from each other)")
    say(f"public   {public}")


@click.command(
    "command",
    short_help="Use a key behind a program (HSM, KMS).",
    epilog="Next: assize keys rotate --to KEY.",
    context_settings={"ignore_unknown_options": True},
)
@click.option("--public", type=_FILE, required=True, metavar="FILE", help="Public line, or 32 raw bytes.")
@click.option(
    "--timeout",
    type=click.IntRange(1, command_key.LONGEST_TIMEOUT_S),
    default=command_key.TIMEOUT_S,
    show_default=True,
    metavar="S",
    help="Seconds after which the program has failed.",
)
@json_option
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command_(
    context: click.Context, public: Path, timeout: int, as_json: bool, argv: tuple[str, ...]
) -> None:
    """Let ARGV, a program by its absolute path with its arguments, sign for this home.

    It is started without a shell, gets the message on standard input and answers the raw 64 bytes of an
    Ed25519 signature. It has to sign once now; every signature is verified before it is used.

    \b
    Examples:
      assize keys command --public kms.pub -- /usr/local/bin/kms-sign key-1
      assize keys command --public hsm.pub --timeout 60 -- /opt/hsm/sign --slot 3
    """
    custodian = Custodian(home_of(context))
    key = CommandKey.checked(_public(public), argv, timeout)
    with custodian.at_work():
        path = custodian.keyring.adopt(key)
    if as_json:
        emit(COMMAND_SCHEMA, {"keyid": key.keyid, "file": str(path), "command": list(argv)})
        return
    click.echo(cell(f"key {key.keyid} signs by {argv[0]}: {path}"))
    say(
        f"next: assize keys rotate --to {key.keyid[:8]}, or assize keys ceremony --certificate-key, --log-key"
    )


def _public(path: Path) -> bytes:
    """The key of a file with a public line or with 32 raw bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return raw if len(raw) == 32 else public_line.read(path)


@click.command("encrypt", short_help="Encrypt plain key files.", epilog="Next: assize doctor.")
@json_option
@click.pass_context
def encrypt(context: click.Context, as_json: bool) -> None:
    """Encrypt every private key of this home that still lies in plain; again is harmless.

    The passphrase is that of ASSIZE_KEY_PASSPHRASE_FILE; without it one is drawn and kept in your
    configuration folder, outside the home. Losing it means losing the keys.

    \b
    Examples:
      assize keys encrypt
      assize keys encrypt --json
    """
    custodian = Custodian(home_of(context))
    with custodian.at_work():
        phrase = passphrase.provide(custodian.home.keys, custodian.disk)
        changed = custodian.keyring.encrypt(phrase.path)
    if as_json:
        emit(ENCRYPT_SCHEMA, {"encrypted": [path.name for path in changed], "passphrase": str(phrase.path)})
        return
    click.echo(
        cell(f"encrypted: {', '.join(path.name for path in changed) or 'nothing, no key lay in plain'}")
    )
    say(f"the passphrase is in {phrase.path}: keep a copy apart from the home, without it the keys are lost")


@click.command(
    "destroy", short_help="Destroy a private key that is over.", epilog="Next: assize keys status."
)
@click.argument("key")
@yes_option
@json_option
@click.pass_context
def destroy(context: click.Context, key: str, yes: bool, as_json: bool) -> None:
    """Destroy private key KEY, which no trust root lets sign any more. There is no way back.

    Its file is overwritten and removed; copies in backups and in the cells of a disk are yours to find. A
    key behind a program is only forgotten here. That it is gone is then logged as a notice.

    \b
    Examples:
      assize keys destroy 7d41ab
      assize keys destroy 7d41ab --yes --json
    """
    custodian = Custodian(home_of(context))
    keyid = held_key(custodian, key)
    publishing.refuse_needed(custodian, keyid)
    ask(f"Destroy the private key {keyid}? This cannot be undone.", yes)
    name = publishing.destroy(custodian, keyid)
    told = announce_destroyed(custodian.home, custodian.trust_root(), keyid) if custodian.roots.exists else []
    if as_json:
        emit(DESTROY_SCHEMA, {"keyid": keyid, "file": name, "notices": [vars(one) for one in told]})
        return
    click.echo(cell(f"destroyed: key {keyid} ({name})"))
    show_announced(told)


COMMANDS: Final = (new, command_, encrypt, destroy)
