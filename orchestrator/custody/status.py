"""Where a home stands with its keys and its trust root, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from orchestrator.certificates import schema
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.trust import TrustedKey, TrustedLog, TrustRoot
from orchestrator.custody import changes
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.draft import Draft, Need
from orchestrator.custody.keyring import HeldKey
from orchestrator.custody.signer import candidates, open_log
from orchestrator.errors import AssizeError
from orchestrator.verification import ed25519
from orchestrator.verification.errors import VerificationError

SOON: Final = timedelta(days=60)


@dataclass(frozen=True)
class KeyStatus:
    """A certificate key of the current version, times in UTC text; `signs` marks the one whose turn it is."""

    keyid: str
    usages: tuple[str, ...]
    log: str | None
    from_index: int
    until_index: int | None
    not_before: str
    not_after: str
    revoked_from: int | None
    revoked_because: str | None
    held: bool
    frozen: str | None
    signs: bool


@dataclass(frozen=True)
class LogStatus:
    """A log of the current version; `open` marks the one that is written to."""

    origin: str
    keyid: str
    size: int
    final_size: int | None
    held: bool
    open: bool


@dataclass(frozen=True)
class DraftStatus:
    """The draft in progress: what it changes, and what every root set still needs."""

    version: int
    described: tuple[str, ...]
    needs: tuple[Need, ...]
    complete: bool
    previous_sha256: str | None


@dataclass(frozen=True)
class Status:
    """Everything; `root` is None before the first version. `unlisted` are key files that nothing lists."""

    root: TrustRoot | None
    pin: str | None
    keys: tuple[KeyStatus, ...]
    logs: tuple[LogStatus, ...]
    held: tuple[HeldKey, ...]
    unlisted: tuple[str, ...]
    draft: DraftStatus | None
    warnings: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def status(custodian: Custodian) -> Status:
    """Look, change nothing. Raises what `RootStore.current` raises, and `DraftError`."""
    root = custodian.roots.current() if custodian.roots.exists else None
    pin = None if root is None else _pin(custodian, root)
    held = tuple(custodian.keyring.entries())
    keys = () if root is None else tuple(_keys(custodian, root))
    logs = () if root is None else tuple(_logs(custodian, root))
    found = custodian.draft()
    listed = set() if root is None else {*root.keys, *root.root_keys, *(log.keyid for log in logs)}
    if found is not None:
        document = found.document
        listed |= {one["keyid"] for one in [*document["certificateKeys"], *document["root"]["keys"]]}
        listed |= {changes.log_keyid(one) for one in document["logs"]}
    unlisted = tuple(one.keyid for one in held if one.keyid is not None and one.keyid not in listed)
    drafted = None if found is None else _drafted(found)
    made = Status(root, pin, keys, logs, held, unlisted, drafted)
    made = replace(made, warnings=tuple(_warnings(made, datetime.fromisoformat(custodian.dates()[0]))))
    return replace(made, next=tuple(_next(made)))


def _pin(custodian: Custodian, root: TrustRoot) -> str:
    if root.version == 1:
        return root.sha256
    second = changes.document_of(custodian.roots.raw(2))
    return str(second["previous"]["sha256"])


def _keys(custodian: Custodian, root: TrustRoot) -> Iterator[KeyStatus]:
    document = changes.document_of(custodian.roots.raw(root.version))
    turn = signing_now(custodian, root)
    for entry in document["certificateKeys"]:
        keyid, revoked = entry["keyid"], entry["revoked"]
        yield KeyStatus(
            keyid,
            tuple(entry["usages"]),
            entry["log"],
            entry["fromIndex"],
            entry["untilIndex"],
            entry["notBefore"],
            entry["notAfter"],
            None if revoked is None else revoked["fromIndex"],
            None if revoked is None else revoked["reason"],
            custodian.keyring.holds(keyid),
            custodian.keyring.frozen(keyid),
            turn is not None and turn.keyid == keyid,
        )


def signing_now(custodian: Custodian, root: TrustRoot) -> TrustedKey | None:
    """The certificate key whose turn it is, by the positions of the open log; None where there is none."""
    try:
        origin = open_log(root)
    except CertificateError:
        return None
    size = _size(custodian, root.logs[origin]) if origin is not None else 0
    for key in candidates(root, schema.TRY, size):
        if custodian.keyring.frozen(key.keyid) is None and custodian.keyring.holds(key.keyid):
            return key
    return None


def _size(custodian: Custodian, log: TrustedLog) -> int:
    """The size of a log; that which was signed last where its files are lost or damaged."""
    try:
        return custodian.log_size(log)
    except (AssizeError, VerificationError):
        return custodian.signed_size(log.key.origin)


def _logs(custodian: Custodian, root: TrustRoot) -> Iterator[LogStatus]:
    try:
        writes = open_log(root)
    except CertificateError:
        writes = None
    for origin, log in root.logs.items():
        keyid = ed25519.key_id(log.key.key.raw)
        yield LogStatus(
            origin,
            keyid,
            _size(custodian, log),
            log.final_size,
            custodian.keyring.holds(keyid),
            origin == writes,
        )


def _drafted(found: Draft) -> DraftStatus:
    return DraftStatus(
        found.version,
        tuple(found.described()),
        tuple(found.needs()),
        found.complete,
        found.previous_sha256,
    )


def _warnings(made: Status, now: datetime) -> Iterator[str]:
    for one in made.held:
        if one.problem is not None:
            yield f"{one.path.name}: {one.problem}"
    plain = [one.path.name for one in made.held if one.is_plain]
    if plain:
        yield f"not encrypted: {', '.join(plain)}"
    if made.root is None:
        return
    yield from _expiry("the trust root", made.root.expires_at, now)
    turn = [key for key in made.keys if key.signs]
    for key in turn:
        yield from _expiry(f"key {key.keyid}", key.not_after, now)
    if not turn:
        yield "no key here can sign a certificate now"
    for key in made.keys:
        if key.frozen is not None and key.revoked_from is None and key.until_index is None:
            yield f"key {key.keyid} is frozen: {key.frozen}"
    for log in made.logs:
        if log.open and not log.held:
            yield f"the key {log.keyid} of the log {log.origin} is not here"


def _expiry(what: str, when: str, now: datetime) -> Iterator[str]:
    end = datetime.fromisoformat(when)
    if end <= now:
        yield f"{what} expired at {when}"
    elif end - now < SOON:
        yield f"{what} expires at {when}"


def _next(made: Status) -> Iterator[str]:
    """The commands that go on from here, most urgent first."""
    if made.draft is not None:
        if made.draft.complete:
            yield f"assize keys publish makes version {made.draft.version} the trust root, for good"
        else:
            yield "assize keys sign signs with the root keys that are here"
            yield "for root keys elsewhere: carry the draft there, sign it, assize keys merge FILE here"
        yield "assize keys discard takes the draft back"
        return
    if made.root is None:
        yield "assize keys ceremony makes the first trust root; the first screening makes one by itself"
        return
    frozen = [
        key.keyid
        for key in made.keys
        if key.frozen is not None and key.revoked_from is None and key.until_index is None
    ]
    for keyid in frozen:
        yield f"assize keys revoke {keyid[:8]} --from-index I goes on; with --undo the key signs again"
    yield from _next_for_keys(made)
    if any("expire" in told for told in made.warnings):
        yield "assize keys ceremony renews the dates of the trust root, assize keys rotate those of a key"


def _next_for_keys(made: Status) -> Iterator[str]:
    sizes = {log.origin: log.size for log in made.logs}
    still = [key for key in made.keys if key.until_index is None and key.revoked_from is None]
    for old, new in pairwise(still):
        if old.log == new.log:
            yield f"assize keys close {old.keyid[:8]}: {new.keyid[:8]} signs from entry {new.from_index} on"
    for key in made.keys:
        over = key.until_index is not None and sizes.get(key.log or "", 0) >= key.until_index
        if key.held and (over or key.revoked_from is not None):
            yield f"assize keys destroy {key.keyid[:8]}: it can sign nothing any more"
    for log in made.logs:
        if log.open and not log.held:
            yield "assize keys new-log: the key of the open log is not here"
