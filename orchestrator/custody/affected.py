"""What a revocation takes the trust from: what a revoked key signed at or beyond its index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.trust import TrustedKey, TrustRoot
from orchestrator.custody.custodian import Custodian


@dataclass(frozen=True)
class Affected:
    """One entry of the log; `file` is where its envelope is published, relative to the logs.

    `renewed` says that the same statement is logged elsewhere too, by a key that holds there: it verifies.
    """

    log: str
    index: int
    keyid: str
    kind: str
    screening: str
    where: str
    digest: str
    file: str
    renewed: bool


def affected(custodian: Custodian, keyid: str | None = None) -> list[Affected]:
    """The affected statements of one key, or of every revoked key, in the order of the log."""
    root = custodian.trust_root()
    keys = [key for key in root.keys.values() if keyid in (None, key.keyid) and key.revoked_from is not None]
    standing = _standing(custodian, root) if keys else set()
    return [row for key in keys for row in _rows(custodian, root, key, standing)]


def _standing(custodian: Custodian, root: TrustRoot) -> set[str]:
    """The digests of all statements that some key logged where it may."""
    found = set()
    for log in root.logs.values():
        for index, raw in custodian.entries(log, 0):
            _, digest, signed, _ = raw.decode().splitlines()
            key = root.keys.get(signed.partition(" ")[0])
            if key is not None and key.log == log.key.origin and not key.objections(index):
                found.add(digest)
    return found


def _rows(custodian: Custodian, root: TrustRoot, key: TrustedKey, standing: set[str]) -> Iterator[Affected]:
    if key.revoked_from is None or key.log is None:
        return
    log = root.logs[key.log]
    wanted = set(custodian.signed_by(key.keyid, log, key.revoked_from))
    for index, raw in custodian.entries(log, key.revoked_from):
        if index not in wanted:
            continue
        _, digest, _, position = raw.decode().splitlines()
        screening, task, number, attempt = position.split(" ")
        is_try = not task.startswith("-")
        yield Affected(
            key.log,
            index,
            key.keyid,
            "try-certificate" if is_try else task[1:],
            screening,
            f"{task} {number} {attempt}" if is_try else "",
            digest,
            f"{key.log}/{statement_path(digest)}",
            digest in standing,
        )
