"""The steps that make or extend a draft: ceremony, rotation, closing, revocation, a new log.

Each is one lock, idempotent (asked again it finds what it has drafted), and changes nothing that verifiers
see: `publishing.publish` does that, and `publishing.discard` takes a draft back. A draft that somebody has
signed is not edited any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from orchestrator.certificates import founding, trust
from orchestrator.certificates.keys import KeyHolder
from orchestrator.certificates.trust import TrustedKey, TrustRoot
from orchestrator.custody import changes
from orchestrator.custody.changes import Document
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.draft import Draft
from orchestrator.custody.errors import ChangeError, DraftError
from orchestrator.custody.signer import open_log
from orchestrator.verification import wire

MARGIN: Final = 16
"""How many entries ahead a rotation switches where nobody says."""


def ceremony(
    custodian: Custodian,
    roots: Sequence[bytes],
    threshold: int | None,
    *,
    issuer: str,
    certificate: str | None = None,
    log: str | None = None,
    witness_policy: str | None = None,
) -> Draft:
    """A draft with these public root keys (none: those that are there) and fresh dates.

    In a new home it is version 1 under `issuer`, with a certificate key and a log key made here, or those
    held under the given key ids.
    """
    with custodian.at_work():
        if not custodian.roots.exists:
            return _first(custodian, roots, threshold, issuer, certificate, log, witness_policy)
        if certificate is not None or log is not None:
            raise ChangeError("this home has its keys", hint="assize keys rotate, assize keys new-log")
        base, previous = _base(custodian)
        root = base["root"]
        publics = list(roots) or [wire.base64_decode(key["public"].encode()) for key in root["keys"]]
        made = changes.with_roots(base, publics, root["threshold"] if threshold is None else threshold)
        if witness_policy is not None:
            made = {**made, "witnessPolicy": witness_policy}
        return _written(custodian, made, previous)


def _first(
    custodian: Custodian,
    roots: Sequence[bytes],
    threshold: int | None,
    issuer: str,
    certificate: str | None,
    log: str | None,
    witness_policy: str | None,
) -> Draft:
    if not roots:
        raise ChangeError("the first trust root needs root keys", hint="--root FILE, or --generate N")
    found = custodian.draft()
    if found is not None:
        _unsigned(found)
        base = found.document
    else:
        start, end = custodian.dates()
        base = changes.first(issuer, start, end)
    made = changes.with_roots({**base, "issuer": issuer}, roots, threshold or len(roots) // 2 + 1)
    if not made["certificateKeys"] or certificate is not None or log is not None:
        start, end = made["issuedAt"], made["expiresAt"]
        origin = founding.origin_of(issuer, int(start[:4]))
        log_key, own = _key(custodian, log), _key(custodian, certificate)
        entry = founding.key_entry(own.public, not_before=start, not_after=end, log=origin)
        made = {**made, "logs": [founding.log_entry(origin, log_key.public)], "certificateKeys": [entry]}
    elif base["issuer"] != issuer:
        raise ChangeError("the draft is under another issuer", hint="assize keys discard, then begin again")
    return _written(custodian, {**made, "witnessPolicy": witness_policy}, None)


def rotate(custodian: Custodian, *, at: int | None = None, to: str | None = None) -> Draft:
    """A draft that lists a new certificate key for the open log, from entry `at` on.

    `to` is the id of a key that is held already (behind a program, say); without it one is made.
    """
    with custodian.at_work():
        root = custodian.trust_root()
        origin = _open_origin(root)
        base, previous = _base(custodian)
        if any(one["keyid"] not in root.keys and one["log"] == origin for one in base["certificateKeys"]):
            return custodian.some_draft()
        size = custodian.log_size(root.logs[origin])
        index = size + MARGIN if at is None else at
        if index < size:
            raise ChangeError(
                f"entry {index} is there already: the log has {size}", hint="choose a later --at"
            )
        key = _key(custodian, to)
        made = changes.with_certificate_key(base, _entry_of(custodian, base, root, key, origin, index))
        return _written(custodian, made, previous)


def close(custodian: Custodian, keyid: str) -> Draft:
    """A draft that closes a certificate key behind its last entry, where its successor takes over."""
    with custodian.at_work():
        root, log = custodian.log_of(keyid)
        base, previous = _base(custodian)
        entry = changes.certificate_key(base, keyid)
        if entry["untilIndex"] is not None:
            if root.keys[keyid].until_index is not None:
                raise ChangeError(f"key {keyid} is closed at {entry['untilIndex']} already")
            return custodian.some_draft()
        others = [one for one in _open_keys(root, log.key.origin) if one.keyid != keyid]
        if not others:
            raise ChangeError(
                f"no other key of the trust root signs for {log.key.origin}",
                hint="assize keys rotate, publish that, then close the old key",
            )
        begins = max(min(one.from_index for one in others), entry["fromIndex"])
        signed = custodian.signed_by(keyid, log, begins)
        until = max([begins, *(index + 1 for index in signed)])
        return _written(custodian, changes.with_closed(base, keyid, until), previous)


def revoke(custodian: Custodian, keyid: str, from_index: int, reason: str) -> Draft:
    """Freeze a certificate key now, and draft its revocation from entry `from_index` on.

    The freeze stands whatever happens next. Where no other key is left to sign, the draft lists a new one
    from the next entry on.
    """
    with custodian.at_work():
        root, log = custodian.log_of(keyid)
        size = custodian.log_size(log)
        if from_index > size:
            raise ChangeError(
                f"the log has {size} entries, {from_index} is beyond",
                hint=f"--from-index {size} revokes nothing that is logged, a smaller one what comes after it",
            )
        revoked = root.keys[keyid].revoked_from
        if revoked is not None and from_index >= revoked:
            raise ChangeError(f"key {keyid} is revoked from {revoked} already", hint="assize keys affected")
        custodian.keyring.freeze(keyid, f"its revocation is under way ({reason})")
        base, previous = _base(custodian)
        drafted = changes.certificate_key(base, keyid)["revoked"]
        if drafted is None or (drafted["fromIndex"], drafted["reason"]) != (from_index, reason):
            base = changes.with_revoked(base, keyid, from_index, reason, custodian.dates()[0])
        if (
            log.final_size is None
            and not _ended(base, log.key.origin)
            and not _others(base, keyid, log.key.origin, size)
        ):
            key = _key(custodian, None)
            entry = _entry_of(custodian, base, root, key, log.key.origin, size)
            base = changes.with_certificate_key(base, entry)
        return _written(custodian, base, previous)


def _ended(base: Document, origin: str) -> bool:
    """Whether the draft ends the log: then its successor has a key of its own."""
    return any(one["origin"] == origin and one["finalSize"] is not None for one in base["logs"])


def _others(base: Document, keyid: str, origin: str, size: int) -> list[Document]:
    """Entries of other keys that may sign at `size`."""
    return [
        one
        for one in base["certificateKeys"]
        if one["keyid"] != keyid
        and (one["log"], one["untilIndex"], one["revoked"]) == (origin, None, None)
        and one["fromIndex"] <= size
    ]


def new_log(custodian: Custodian, origin: str | None = None, key: str | None = None) -> Draft:
    """Freeze the keys of the open log, and draft its end and a new log with a key of its own.

    For a new year, and when a log key is lost or stolen. Nothing is signed between this and the
    publication, because the final size is part of what the root keys sign. Positions count within one log,
    so a new certificate key comes with it and the old ones are closed.
    """
    with custodian.at_work():
        root = custodian.trust_root()
        old = _open_origin(root)
        base, previous = _base(custodian)
        if len(base["logs"]) > len(root.logs):
            return custodian.some_draft()
        found = custodian.draft()
        if found is not None:
            _unsigned(found)
        name = origin or _next_origin(root, custodian.dates()[0])
        for one in _open_keys(root, old):
            custodian.keyring.freeze(one.keyid, f"the log {old} is being ended")
        custodian.recover(root.logs[old])
        size = custodian.log_size(root.logs[old])
        log_key, own = _key(custodian, key), _key(custodian, None)
        made = changes.with_log_ended(base, old, size)
        for entry in base["certificateKeys"]:
            if (entry["log"], entry["untilIndex"]) == (old, None):
                made = changes.with_closed(made, entry["keyid"], max(size, entry["fromIndex"]))
        made = changes.with_log(made, founding.log_entry(name, log_key.public))
        made = changes.with_certificate_key(made, _entry_of(custodian, made, root, own, name, 0))
        return _written(custodian, made, previous)


def _next_origin(root: TrustRoot, today: str) -> str:
    """The log of this year, or the next free one in it."""
    name = founding.origin_of(root.issuer, int(today[:4]))
    if name not in root.logs:
        return name
    number = 2
    while f"{name}-{number}" in root.logs:
        number += 1
    return f"{name}-{number}"


def _open_keys(root: TrustRoot, origin: str) -> list[TrustedKey]:
    """The certificate keys of a log that no version has closed or revoked."""
    return [
        one
        for one in root.keys.values()
        if (one.log, one.until_index, one.revoked_from) == (origin, None, None)
    ]


def _open_origin(root: TrustRoot) -> str:
    origin = open_log(root)
    if origin is None:
        raise ChangeError(
            "this trust root lists no log, so its keys have no positions to change at",
            hint="begin a new home; certificates of this one go on to verify under its trust root",
        )
    return origin


def _base(custodian: Custodian) -> tuple[Document, bytes]:
    """The document to edit, and the version before it: an unsigned draft, or the current version renewed."""
    current = custodian.roots.current()
    raw = custodian.roots.raw(current.version)
    found = custodian.draft()
    if found is None:
        return changes.successor(raw, *custodian.dates()), raw
    return found.document, raw


def _unsigned(found: Draft) -> None:
    if found.signatures:
        raise DraftError(
            f"the draft of version {found.version} is signed, so it is not changed any more",
            hint="publish it or discard it first: assize keys status",
        )


def _written(custodian: Custodian, document: Document, previous: bytes | None) -> Draft:
    made = Draft.of(document, previous)
    found = custodian.draft()
    if found is not None:
        if found.payload == made.payload:
            return found
        _unsigned(found)
    custodian.write_draft(made)
    return made


def _key(custodian: Custodian, keyid: str | None) -> KeyHolder:
    """The key held under this id, or a new one."""
    if keyid is not None:
        return custodian.keyring.holder(keyid)
    found = custodian.draft()
    if found is not None:
        _unsigned(found)
    return custodian.keyring.generate(custodian.provide_passphrase())


def _entry_of(
    custodian: Custodian, base: Document, root: TrustRoot, key: KeyHolder, log: str, index: int
) -> dict[str, Any]:
    """The entry of a new certificate key.

    It may sign what was issued since the first of the keys: dates are claims, and an attempt that ended
    under an old key may have to be certified under the new one. What it may sign is decided by positions.
    """
    if key.keyid in root.keys:
        raise ChangeError(f"key {key.keyid} is listed already", hint="a key has one entry; choose another")
    since = min(one.not_before for one in root.keys.values())
    until = custodian.dates()[1]
    usages = trust.USAGES
    entry = founding.key_entry(
        key.public, usages=usages, not_before=since, not_after=until, log=log, from_index=index
    )
    if any(one["keyid"] == key.keyid for one in base["certificateKeys"]):
        raise ChangeError(f"key {key.keyid} is in the draft already", hint="assize keys status")
    return entry
