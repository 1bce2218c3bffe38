"""`assize log`: the transparency log of this home, its witnesses, and a copy that can be published."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Final

import click

from orchestrator.certificates.log_status import ShardStatus, current, statuses, verifier_of
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.trust import TrustRoot
from orchestrator.cli import exits
from orchestrator.cli.output import DASH, cell, emit, home_of, json_option, say, table
from orchestrator.custody.roots import RootStore
from orchestrator.errors import UsageError
from orchestrator.home import Home
from orchestrator.log import publishing, witnessed
from orchestrator.log.note import LIMIT_BYTES
from orchestrator.log.proof import ConsistencyProof
from orchestrator.log.tiles import Tiles
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

STATUS_SCHEMA: Final = "assize.log-status/1"
CHECKPOINT_SCHEMA: Final = "assize.log-checkpoint/1"
COSIGN_SCHEMA: Final = "assize.log-cosign/1"
PUBLISH_SCHEMA: Final = "assize.log-publish/1"

_log_option = click.option(
    "--log", "origin", metavar="ORIGIN", help="Which shard. [default: the newest that has been begun]"
)


@click.group(
    "log",
    short_help="The transparency log: status, witnesses, publishing.",
    epilog="Next: assize log status, assize verify --audit LOGDIR.",
)
def command() -> None:
    """The log that every certificate is entered in: where it stands, who witnessed it, what to publish.

    \b
    Examples:
      assize log status
      assize log publish /srv/www/log
    """


@command.command(
    "status", short_help="Every shard.", epilog="Next: assize log checkpoint, assize log publish DIR."
)
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Every shard of the log by the trust root: size, whether it is closed, and what is witnessed.

    Exit 1 when what is published does not hold.

    \b
    Examples:
      assize log status
      assize log status --json
    """
    home = home_of(context)
    found = statuses(home.log, _root(home))
    if as_json:
        emit(STATUS_SCHEMA, {"logs": [asdict(one) for one in found]})
    else:
        table(
            ("log", "entries", "state", "witnessed"),
            [(one.origin, _number(one.size), _state(one), _witnessed(one)) for one in found],
        )
        for one in found:
            if one.problem:
                say(f"{one.origin}: {one.problem}")
    context.exit(exits.REFUSED if any(one.problem for one in found) else exits.DONE)


@command.command("checkpoint", epilog="Next: assize log cosign ANSWER, with what the witness sends back.")
@_log_option
@click.option(
    "--since", type=click.IntRange(0), metavar="SIZE", help="As a witness takes it that knows SIZE."
)
@json_option
@click.pass_context
def checkpoint(context: click.Context, origin: str | None, since: int | None, as_json: bool) -> None:
    """Print the published checkpoint, to be sent to a witness by any means.

    With --since it is the request of the tlog-witness protocol: the size that the witness has seen (0 for
    none), the consistency proof from there, and the checkpoint.

    \b
    Examples:
      assize log checkpoint > checkpoint.txt
      assize log checkpoint --since 1200 > request.txt
    """
    home = home_of(context)
    root = _root(home)
    name = _chosen(home, root, origin)
    folder, verifier = home.log / name, verifier_of(root, name)
    raw, head = witnessed.export(folder, home.log_state / name, verifier)
    text = raw
    if since is not None:
        if since > head.size:
            raise UsageError(f"the log has {head.size} entries, not {since}")
        path = Tiles(folder, head.size).consistency_proof(since) if 0 < since < head.size else []
        text = ConsistencyProof(since, tuple(path), raw).encode()
    if as_json:
        data = {"origin": name, "size": head.size, "root": wire.base64_encode(head.root).decode()}
        emit(CHECKPOINT_SCHEMA, {**data, "text": text.decode()})
    else:
        click.echo(text, nl=False)


@command.command("cosign", epilog="Next: assize log status, assize log publish DIR.")
@click.argument("answer", type=click.File("rb"))
@_log_option
@json_option
@click.pass_context
def cosign(context: click.Context, answer: BinaryIO, origin: str | None, as_json: bool) -> None:
    """Take what a witness sent back: its signature line, or the checkpoint with that line. `-` is standard
    input.

    The line must be by a witness of the trust root's policy (Ed25519 cosignature/v1 or ML-DSA-44), for a
    checkpoint of this log. The newest checkpoint with enough of them is published as
    `checkpoint.witnessed`, and certificates are proven against it from then on.

    \b
    Examples:
      assize log cosign answer.txt
      assize log cosign - < answer.txt
    """
    home = home_of(context)
    root = _root(home)
    name = _chosen(home, root, origin)
    if not root.witness_policy.witnesses:
        raise UsageError(
            "the trust root names no witnesses",
            hint="assize keys ceremony --witness-policy FILE, then publish",
        )
    raw = answer.read(LIMIT_BYTES + 1)
    found = witnessed.collect(home.log / name, home.log_state / name, verifier_of(root, name), raw)
    seen, rule = found.witnessing, root.witness_policy.rule
    if as_json:
        data = {"origin": name, "size": found.checkpoint.size, "added": list(found.added)}
        emit(COSIGN_SCHEMA, {**data, "cosigned": sorted(seen.times), "quorum": rule, "met": seen.met})
        return
    added = ", ".join(found.added) or "nothing new"
    click.echo(cell(f"{name} at {found.checkpoint.size}: {added}"))
    asked = "no quorum is asked" if rule is None else f"quorum {rule}: {'met' if seen.met else 'NOT met'}"
    click.echo(f"witnessed {len(seen.times)}/{seen.known} ({asked})")


@command.command("publish", epilog="Next: assize verify --audit DIR/ORIGIN.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--all", "again", is_flag=True, help="Compare every file, not only what is new.")
@json_option
@click.pass_context
def publish(context: click.Context, directory: Path, again: bool, as_json: bool) -> None:
    """Bring a static copy of every shard in DIR up to date, in the layout of C2SP tlog-tiles.

    Readers see the log as it was until all of the new one is there: the checkpoint is replaced last. A
    copy that shows another history is refused and left alone.

    \b
    Examples:
      assize log publish /srv/www/log
      assize log publish ./public --all --json
    """
    home = home_of(context)
    root, rows = _root(home), []
    for one in statuses(home.log, root):
        if one.size is None:
            continue
        done = publishing.publish(
            home.log / one.origin,
            directory / one.origin,
            verifier_of(root, one.origin),
            lambda entry: statement_path(entry.split(b"\n")[1].decode()),
            again=again,
        )
        rows.append({"origin": one.origin, "size": done.checkpoint.size, "files": done.files})
    if not rows:
        raise UsageError("there is no log here yet", hint="the first screening begins it")
    if as_json:
        emit(PUBLISH_SCHEMA, {"directory": str(directory), "logs": rows})
        return
    for row in rows:
        click.echo(cell(f"{row['origin']}: {row['size']} entries, {row['files']} files written"))


def _root(home: Home) -> TrustRoot:
    roots = RootStore.of(home)
    if not roots.exists:
        raise UsageError(f"there is no trust root at {home.trust_root}", hint="the first screening makes one")
    try:
        return roots.current()
    except VerificationError as error:
        raise UsageError(f"the trust root {home.trust_root} is refused: {error.message}") from None


def _chosen(home: Home, root: TrustRoot, origin: str | None) -> str:
    if origin is not None and origin not in root.logs:
        raise UsageError(f"the trust root lists no log {origin}", hint="assize log status lists them")
    found = origin or current(home.log, root)
    if found is None or not (home.log / found / "checkpoint").exists():
        raise UsageError("there is no log here yet", hint="the first screening begins it")
    return found


def _number(value: int | None) -> str:
    return DASH if value is None else str(value)


def _state(one: ShardStatus) -> str:
    if one.problem:
        return "DAMAGED"
    if one.size is None:
        return "not begun"
    return "closed" if one.is_closed else "open"


def _witnessed(one: ShardStatus) -> str:
    if one.witnessed_size is not None:
        at = f" at {one.quorum_at}" if one.quorum_at else ""
        return f"{one.witnessed_size} entries{at}"
    if one.quorum is None:
        return "not witnessed"
    return f"not witnessed: {len(one.cosigners)}/{one.known} (quorum {one.quorum})"
