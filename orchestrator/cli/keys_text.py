"""How the custody of keys is told: lines for a person, and the data behind `--json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from orchestrator.cli.output import DASH, cell, emit, say, table_lines
from orchestrator.custody.affected import Affected
from orchestrator.custody.draft import Draft, Need
from orchestrator.custody.status import DraftStatus, Status
from orchestrator.screenings.key_events import Announced

DRAFT_SCHEMA = "assize.keys-draft/1"
_SHORT = 8


def _positions(first: int, until: int | None) -> str:
    return f"{first}.." if until is None else f"{first}..{until}"


def need_line(need: Need) -> str:
    """What one root set still asks for."""
    told = f"signed by {len(need.signed)} of {need.threshold} root keys of version {need.version}"
    if need.met:
        return told
    return f"{told}; still to sign: {', '.join(need.unsigned)}"


def draft_lines(found: Draft | DraftStatus, described: Sequence[str]) -> list[str]:
    """What a draft changes and what it needs."""
    needs = found.needs if isinstance(found, DraftStatus) else found.needs()
    lines = [f"draft of version {found.version}, not published", *(f"  {line}" for line in described)]
    if found.previous_sha256 is not None:
        lines.append(f"  it follows version {found.version - 1}, sha256 {found.previous_sha256}")
    return lines + [f"  {need_line(need)}" for need in needs]


def need_data(need: Need) -> dict[str, Any]:
    """The same for programs."""
    return {**vars(need), "met": need.met}


def draft_data(found: Draft) -> dict[str, Any]:
    """A draft for programs."""
    return {
        "version": found.version,
        "changes": found.described(),
        "previous_sha256": found.previous_sha256,
        "needs": [need_data(need) for need in found.needs()],
        "complete": found.complete,
    }


def show_draft(
    found: Draft,
    path: str,
    did: str,
    *,
    as_json: bool,
    more: dict[str, Any] | None = None,
    elsewhere: bool = False,
) -> None:
    """The result of a step that made or changed a draft, and the next steps; `elsewhere` than in its home."""
    if as_json:
        emit(DRAFT_SCHEMA, {"did": did, "draft": path, **draft_data(found), **(more or {})})
        return
    say(did)
    click.echo("\n".join(map(cell, draft_lines(found, found.described()))))
    if elsewhere:
        say(f"next: carry {path} back to the home, and there: assize keys merge {path}")
    elif found.complete:
        say(f"next: assize keys publish makes version {found.version} the trust root; until then: discard")
    else:
        say("next: assize keys sign (root keys of this home); for root keys elsewhere carry the draft there:")
        say(f"  {path}")
        say("  assize keys sign DRAFT --key FILE there, then assize keys merge DRAFT here; or: discard")


def status_lines(found: Status) -> Iterator[str]:
    """Everything about a home's keys, for a person."""
    root = found.root
    if root is None:
        yield "no trust root yet"
    else:
        yield f"trust root  version {root.version} of {root.issuer}, valid until {root.expires_at}"
        yield f"sha256      {root.sha256}"
        yield f"pin         {found.pin} (version 1)"
        held = {one.keyid for one in found.held}
        here = sum(keyid in held for keyid in root.root_keys)
        yield f"root keys   {root.threshold} of {len(root.root_keys)} must sign; {here} are here"
        yield ""
        yield from _key_lines(found)
        yield ""
        yield from _log_lines(found)
    if found.unlisted:
        yield f"in no trust root: {', '.join(found.unlisted)}"
    if found.draft is not None:
        yield ""
        yield from draft_lines(found.draft, found.draft.described)
    if found.warnings or found.next:
        yield ""
    yield from (f"warning: {line}" for line in found.warnings)
    yield from (f"next: {line}" for line in found.next)


def _key_lines(found: Status) -> list[str]:
    rows = []
    for key in found.keys:
        state = "signs now" if key.signs else ("held" if key.held else "not here")
        if key.revoked_from is not None:
            state = f"revoked from {key.revoked_from}: {key.revoked_because}"
        elif key.frozen is not None:
            state = "frozen"
        usages = ",".join(usage.partition("/")[0] for usage in key.usages)
        where = _positions(key.from_index, key.until_index)
        rows.append((key.keyid, key.log or DASH, where, key.not_after, state, usages))
    return table_lines(("certificate key", "log", "entries", "not after", "state", "signs"), rows)


def _log_lines(found: Status) -> list[str]:
    rows = [
        (
            log.origin,
            log.keyid,
            str(log.size),
            "ended" if log.final_size is not None else ("written to" if log.open else "open"),
            "here" if log.held else "not here",
        )
        for log in found.logs
    ]
    return table_lines(("log", "key", "entries", "state", "its key is"), rows)


def status_data(found: Status) -> dict[str, Any]:
    """The same for programs."""
    root, drafted = found.root, found.draft
    held = {one.keyid for one in found.held}
    return {
        "version": None if root is None else root.version,
        "issuer": None if root is None else root.issuer,
        "expires_at": None if root is None else root.expires_at,
        "sha256": None if root is None else root.sha256,
        "pin": found.pin,
        "threshold": None if root is None else root.threshold,
        "root_keys": [] if root is None else [{"keyid": one, "held": one in held} for one in root.root_keys],
        "certificate_keys": [vars(key) for key in found.keys],
        "logs": [vars(log) for log in found.logs],
        "unlisted": list(found.unlisted),
        "draft": None
        if drafted is None
        else {
            "version": drafted.version,
            "changes": list(drafted.described),
            "previous_sha256": drafted.previous_sha256,
            "needs": [need_data(need) for need in drafted.needs],
            "complete": drafted.complete,
        },
        "warnings": list(found.warnings),
        "next": list(found.next),
    }


def affected_lines(rows: Sequence[Affected]) -> list[str]:
    """What a revocation took the trust from."""
    if not rows:
        return ["no certificate is affected by a revocation"]
    shown = [
        (
            str(one.index),
            one.keyid[:_SHORT],
            one.kind,
            one.screening,
            one.where,
            "yes" if one.renewed else "no",
            one.file,
        )
        for one in rows
    ]
    names = ("entry", "key", "statement", "screening", "task, try, attempt", "certified again", "file")
    left = sum(not one.renewed for one in rows)
    told = f"{left} of {len(rows)} statements do not verify under the current trust root"
    return [*table_lines(names, shown), told]


def show_announced(told: list[Announced]) -> None:
    """Which notices about keys are in the log now, and which are still to be issued."""
    for one in told:
        if one.digest is not None:
            click.echo(cell(f"notice  {one.digest[:16]}: key {one.keyid} {one.event}"))
        else:
            say(
                f"no notice about key {one.keyid} was logged: {one.problem}; later: assize certificates "
                f"notice {one.keyid} --kind key-event --event {one.event} --reason TEXT"
            )
