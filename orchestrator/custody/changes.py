"""The next version of a trust root as data: pure edits of a document, what they change, what they may not.

A document is the signed content of a version (certificates.md 3.5). Nothing here reads a clock or a file.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from orchestrator.certificates import dsse, founding, trust
from orchestrator.certificates.trust import LIMIT_BYTES
from orchestrator.custody.errors import ChangeError
from orchestrator.log.checkpoint import LogKey
from orchestrator.verification import ed25519, wire

Document = dict[str, Any]
REASONS: Final = ("compromise", "loss", "superseded", "ceased")
MOST_SIGNATURES: Final = dsse.MAX_SIGNATURES


def document_of(raw: bytes) -> Document:
    """The content of a version that was checked before."""
    content: Document = wire.parse(dsse.decode(raw, dsse.TRUST_ROOT_TYPE, LIMIT_BYTES).payload)
    return content


def first(issuer: str, issued_at: str, expires_at: str) -> Document:
    """Version 1 before it has keys."""
    return {
        "version": 1,
        "issuer": issuer,
        "issuedAt": issued_at,
        "expiresAt": expires_at,
        "previous": None,
        "root": {"threshold": 1, "keys": []},
        "certificateKeys": [],
        "logs": [],
        "witnessPolicy": None,
    }


def successor(raw: bytes, issued_at: str, expires_at: str) -> Document:
    """The version after `raw`, with nothing changed but its dates."""
    before = document_of(raw)
    return {
        **before,
        "version": before["version"] + 1,
        "issuedAt": issued_at,
        "expiresAt": expires_at,
        "previous": {"version": before["version"], "sha256": trust.sha256_of(raw)},
    }


def with_roots(document: Document, publics: Sequence[bytes], threshold: int) -> Document:
    """Other root keys and another threshold."""
    entries = sorted((founding.root_entry(public) for public in publics), key=lambda one: one["keyid"])
    if len({one["keyid"] for one in entries}) != len(entries):
        raise ChangeError("one root key is named twice", hint="every root key counts once")
    if not 1 <= threshold <= min(len(entries), MOST_SIGNATURES):
        raise ChangeError(
            f"a threshold of {threshold} with {len(entries)} root keys",
            hint=f"1 to {MOST_SIGNATURES}, and no more than there are keys",
        )
    return {**document, "root": {"threshold": threshold, "keys": entries}}


def with_certificate_key(document: Document, entry: Document) -> Document:
    """One more certificate key."""
    return {**document, "certificateKeys": [*document["certificateKeys"], entry]}


def with_log(document: Document, entry: Document) -> Document:
    """One more log, from now on the one that is written to."""
    if any(one["origin"] == entry["origin"] for one in document["logs"]):
        raise ChangeError(f"the trust root lists the log {entry['origin']} already", hint="choose --origin")
    return {**document, "logs": [*document["logs"], entry]}


def certificate_key(document: Document, keyid: str) -> Document:
    """The entry of a certificate key; raises `ChangeError` for an unknown one."""
    for entry in document["certificateKeys"]:
        if entry["keyid"] == keyid:
            found: Document = entry
            return found
    raise ChangeError(f"the trust root lists no certificate key {keyid}", hint="assize keys status")


def log_keyid(entry: Document) -> str:
    """The key id of the key of a log."""
    return ed25519.key_id(LogKey.parse(entry["vkey"], entry["origin"]).key.raw)


def _edited(document: Document, field: str, name: str, value: str, changes: Document) -> Document:
    edited = copy.deepcopy(document)
    for entry in edited[field]:
        if entry[name] == value:
            entry.update(changes)
    return edited


def with_closed(document: Document, keyid: str, until_index: int) -> Document:
    """The key signs no entry from `until_index` on."""
    certificate_key(document, keyid)
    return _edited(document, "certificateKeys", "keyid", keyid, {"untilIndex": until_index})


def with_revoked(document: Document, keyid: str, from_index: int, reason: str, at: str) -> Document:
    """Nothing that the key signed from `from_index` on is trusted."""
    if reason not in REASONS:
        raise ChangeError(f"{reason!r} is no reason to revoke a key", hint="one of " + ", ".join(REASONS))
    revoked = certificate_key(document, keyid)["revoked"]
    if revoked is not None and revoked["fromIndex"] < from_index:
        raise ChangeError(
            f"the key is revoked from {revoked['fromIndex']} already", hint="a revocation never shrinks"
        )
    values = {"fromIndex": from_index, "reason": reason, "announcedAt": at}
    return _edited(document, "certificateKeys", "keyid", keyid, {"revoked": values})


def with_log_ended(document: Document, origin: str, final_size: int) -> Document:
    """The log has `final_size` entries for ever."""
    return _edited(document, "logs", "origin", origin, {"finalSize": final_size})


def _grown(before: int | None, after: int | None) -> bool:
    """Whether an end moved back, or was taken away."""
    return before is not None and (after is None or after > before)


def objections(before: Document, after: Document) -> list[str]:
    """What a later version may not do to what is listed: old certificates must go on to verify, and what was
    ended or revoked stays so. A verifier does not check this; the home does before it publishes."""
    found = []
    if before["issuer"] != after["issuer"]:
        found.append("the issuer changes")
    keys = {entry["keyid"]: entry for entry in after["certificateKeys"]}
    for old in before["certificateKeys"]:
        new, name = keys.get(old["keyid"]), f"certificate key {old['keyid']}"
        if new is None:
            found.append(f"{name} is left out: what it signed would not verify any more")
            continue
        if any(new[field] != old[field] for field in ("log", "fromIndex", "notBefore", "usages")):
            found.append(f"{name} gets another log, beginning or usage")
        if _grown(old["untilIndex"], new["untilIndex"]):
            found.append(f"{name} was closed at {old['untilIndex']} and would be opened again")
        was, now = old["revoked"], new["revoked"]
        if was is not None and (now is None or now["fromIndex"] > was["fromIndex"]):
            found.append(f"{name} was revoked from {was['fromIndex']} and would be trusted again")
    logs = {entry["origin"]: entry for entry in after["logs"]}
    for old in before["logs"]:
        other, name = logs.get(old["origin"]), f"log {old['origin']}"
        if other is None or other["vkey"] != old["vkey"]:
            found.append(f"{name} is left out or gets another key")
        elif _grown(old["finalSize"], other["finalSize"]):
            found.append(f"{name} ended at {old['finalSize']} and would go on")
    return found


def described(before: Document | None, after: Document) -> list[str]:
    """What a version changes, one line each, for those who are asked to sign it."""
    if before is None:
        before = {**after, "root": {"threshold": 0, "keys": []}, "certificateKeys": [], "logs": []}
        lines = [f"version 1 of {after['issuer']}, valid until {after['expiresAt']}"]
    else:
        lines = [f"version {after['version']} of {after['issuer']}, valid until {after['expiresAt']}"]
        if before["issuer"] != after["issuer"]:
            lines.append(f"the issuer was {before['issuer']}")
    lines += _described_roots(before["root"], after["root"])
    lines += _described_keys(before["certificateKeys"], after["certificateKeys"])
    lines += _described_logs(before["logs"], after["logs"])
    if before["witnessPolicy"] != after["witnessPolicy"]:
        lines.append("the witness policy changes")
    return lines


def _described_roots(before: Document, after: Document) -> list[str]:
    old, new = ({one["keyid"] for one in root["keys"]} for root in (before, after))
    lines = [f"root key {keyid} comes" for keyid in sorted(new - old)]
    lines += [f"root key {keyid} goes" for keyid in sorted(old - new)]
    if lines or before["threshold"] != after["threshold"]:
        was = f", was {before['threshold']} of {len(old)}" if old else ""
        lines.append(f"threshold {after['threshold']} of {len(new)} root keys{was}")
    return lines


def _described_keys(before: Sequence[Document], after: Sequence[Document]) -> list[str]:
    old, lines = {one["keyid"]: one for one in before}, []
    for one in after:
        was, name = old.pop(one["keyid"], None), f"certificate key {one['keyid']}"
        if was is None:
            where = f"in {one['log']} from entry {one['fromIndex']}" if one["log"] else "without a log"
            lines.append(f"{name} comes: {where}, until {one['notAfter']}, for {', '.join(one['usages'])}")
            was = {**one, "untilIndex": None, "revoked": None}
        if was["untilIndex"] != one["untilIndex"]:
            lines.append(f"{name} is closed: it signs entries below {one['untilIndex']} only")
        if was["revoked"] != one["revoked"]:
            told = one["revoked"]
            lines.append(
                f"{name} is revoked from entry {told['fromIndex']}: {told['reason']}"
                if told
                else f"{name} is trusted again"
            )
        lines += [
            f"{name}: {field} changes from {was[field]} to {one[field]}"
            for field in ("log", "fromIndex", "usages", "notBefore", "notAfter")
            if was[field] != one[field]
        ]
    return lines + [f"certificate key {keyid} is left out" for keyid in old]


def _described_logs(before: Sequence[Document], after: Sequence[Document]) -> list[str]:
    old, lines = {one["origin"]: one for one in before}, []
    for one in after:
        was = old.pop(one["origin"], None)
        if was is None:
            lines.append(f"log {one['origin']} begins, key {one['vkey']}")
            was = {**one, "finalSize": None}
        if was["vkey"] != one["vkey"]:
            lines.append(f"log {one['origin']} gets the key {one['vkey']}")
        if was["finalSize"] != one["finalSize"]:
            lines.append(f"log {one['origin']} ends at {one['finalSize']} entries")
    return lines + [f"log {origin} is left out" for origin in old]
