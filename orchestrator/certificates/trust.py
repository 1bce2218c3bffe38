"""The trust root: which keys may sign which statements, and where in which log (certificates.md 3.5).

One DSSE envelope, signed by its own root keys. A verifier starts from a version that it trusts by the
pinned hash of the file, and follows a chain: version n + 1 needs the thresholds of n and of n + 1. A
document without logs (made before certificates were logged) means that nothing of its lab is logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.certificates import dsse, schema
from orchestrator.certificates.trust_shape import DOCUMENT
from orchestrator.log.checkpoint import LogKey
from orchestrator.log.witness import WitnessPolicy, parse_policy
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import Finding, VerificationError

LIMIT_BYTES: Final = 256 * 1024
USAGES: Final = (schema.OPENING, schema.TRY, schema.SUMMARY, schema.NOTICE)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A certificate key with what it may sign, when (UTC strings, compared as text) and where.

    `log` is the origin of its log, None in a trust root without logs. It may sign the entries from
    `from_index` up to, not including, `until_index`, and none from `revoked_from` on.
    """

    keyid: str
    public: Ed25519PublicKey
    usages: frozenset[str]
    not_before: str
    not_after: str
    log: str | None = None
    from_index: int = 0
    until_index: int | None = None
    revoked_from: int | None = None

    def objections(self, index: int) -> list[Finding]:
        """Why this key may not have signed entry `index`: `key-window`, `key-revoked`, or nothing."""
        found = []
        if index < self.from_index or (self.until_index is not None and index >= self.until_index):
            end = "" if self.until_index is None else str(self.until_index)
            found.append(
                Finding("key-window", f"entry {index}; key {self.keyid} is for {self.from_index}..{end}")
            )
        if self.revoked_from is not None and index >= self.revoked_from:
            found.append(
                Finding("key-revoked", f"entry {index}; key {self.keyid} is revoked from {self.revoked_from}")
            )
        return found


@dataclass(frozen=True, slots=True)
class TrustedLog:
    """A log and who signs its checkpoints; `final_size` is set once it was closed."""

    key: LogKey
    final_size: int | None = None


@dataclass(frozen=True)
class TrustRoot:
    """A checked trust root. `sha256` is the hash of the file, the value that is pinned and published."""

    version: int
    issuer: str
    issued_at: str
    expires_at: str
    sha256: str
    keys: Mapping[str, TrustedKey]
    logs: Mapping[str, TrustedLog] = field(default_factory=dict)
    witness_policy: WitnessPolicy = field(default_factory=WitnessPolicy)
    root_keys: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    threshold: int = 1

    def usable(self, keyid: str, usage: str, at: str) -> bool:
        """Whether a statement of `usage` signed now (`at`, UTC text) by `keyid` would verify."""
        key = self.keys.get(keyid)
        return (
            key is not None
            and usage in key.usages
            and key.revoked_from is None
            and key.not_before <= at < min(key.not_after, self.expires_at)
        )


def _refused(error: VerificationError) -> VerificationError:
    return VerificationError("trust-root", "; ".join(finding.detail for finding in error.findings))


def _public(entry: dict[str, Any]) -> Ed25519PublicKey:
    raw = wire.base64_decode(entry["public"].encode())
    if ed25519.key_id(raw) != entry["keyid"]:
        raise VerificationError("trust-root", f"key id {entry['keyid']} is not that of its key")
    return ed25519.public_key(raw)


def _unique(entries: list[dict[str, Any]]) -> dict[str, Ed25519PublicKey]:
    keys = {entry["keyid"]: _public(entry) for entry in entries}
    if len(keys) != len(entries):
        raise VerificationError("trust-root", "a key is listed twice")
    return keys


def sha256_of(raw: bytes) -> str:
    """The hash of a trust root file, as it is pinned and published."""
    return hashlib.sha256(raw).hexdigest()


def _check_size(raw: bytes, pin: str | None) -> str:
    if len(raw) > LIMIT_BYTES * 2:
        raise VerificationError("too-large", f"a trust root of {len(raw)} bytes")
    sha256 = sha256_of(raw)
    if pin is not None and pin != sha256:
        raise VerificationError("trust-root-pin", f"the trust root has the hash {sha256}, pinned is {pin}")
    return sha256


def parse(raw: bytes, *, pin: str | None = None) -> TrustRoot:
    """Check the trust root file that a verifier starts from.

    `pin` is the expected SHA-256 of the file; without it a version 1 only proves itself, and the caller
    should say so. Raises `VerificationError`: `trust-root`, `trust-root-pin`, `too-large`, and
    `trust-root-version` for a later version that neither a pin nor the versions before it vouch for.
    """
    sha256 = _check_size(raw, pin)
    document, envelope = _open(raw)
    if pin is None and document["version"] != 1:
        raise VerificationError(
            "trust-root-version",
            f"version {document['version']} alone: give its hash, or every version from 1 on",
        )
    return _checked(document, envelope, sha256)


def follow(known: TrustRoot, raw: bytes) -> TrustRoot:
    """The next version after `known`; raises `VerificationError` (`trust-root`, `too-large`).

    It must be version n + 1, name the hash of n, and be signed by as many root keys as n asks for and as
    it asks for itself. So nothing is skipped, and nobody is led back to an older version.
    """
    sha256 = _check_size(raw, None)
    document, envelope = _open(raw)
    expected = {"version": known.version, "sha256": known.sha256}
    if document["version"] != known.version + 1:
        raise VerificationError("trust-root", f"version {document['version']} after version {known.version}")
    if document["previous"] != expected:
        raise VerificationError("trust-root", f"version {document['version']} follows another document")
    if _votes(envelope, known.root_keys) < known.threshold:
        raise VerificationError(
            "trust-root", f"not signed by enough of the root keys of version {known.version}"
        )
    return _checked(document, envelope, sha256)


def _open(raw: bytes) -> tuple[dict[str, Any], dsse.Envelope]:
    """The document in its exact shape; nothing in it is trusted yet."""
    try:
        envelope = dsse.decode(raw, dsse.TRUST_ROOT_TYPE, LIMIT_BYTES)
        document = wire.parse(envelope.payload)
        DOCUMENT.check(document, [])
    except VerificationError as error:
        raise _refused(error) from None
    previous = document["previous"]
    if (0 if previous is None else previous["version"]) != document["version"] - 1:
        raise VerificationError("trust-root", f"version {document['version']} names no version before it")
    return document, envelope


def _votes(envelope: dsse.Envelope, keys: Mapping[str, Ed25519PublicKey]) -> int:
    """How many of `keys` signed; key ids in an envelope are unique, and a key id is that of one key."""
    signed = envelope.signed_bytes()
    return sum(
        keyid in keys and ed25519.verifies(keys[keyid], signature, signed)
        for keyid, signature in envelope.signatures
    )


def _checked(document: dict[str, Any], envelope: dsse.Envelope, sha256: str) -> TrustRoot:
    try:
        roots = _unique(document["root"]["keys"])
        public = _unique(document["certificateKeys"])
        logs = _logs(document["logs"])
        policy = _policy(document["witnessPolicy"])
        _check_one_use(roots, public, logs, policy)
        keys = {one["keyid"]: _trusted(one, public[one["keyid"]]) for one in document["certificateKeys"]}
        _check_logs(keys, logs, policy)
    except VerificationError as error:
        raise _refused(error) from None
    threshold = document["root"]["threshold"]
    if _votes(envelope, roots) < threshold:
        raise VerificationError("trust-root", "not signed by enough of its root keys")
    return TrustRoot(
        document["version"],
        document["issuer"],
        document["issuedAt"],
        document["expiresAt"],
        sha256,
        keys,
        logs,
        policy,
        roots,
        threshold,
    )


def _trusted(entry: dict[str, Any], public: Ed25519PublicKey) -> TrustedKey:
    revoked = entry["revoked"]
    return TrustedKey(
        entry["keyid"],
        public,
        frozenset(entry["usages"]),
        entry["notBefore"],
        entry["notAfter"],
        entry["log"],
        entry["fromIndex"],
        entry["untilIndex"],
        None if revoked is None else revoked["fromIndex"],
    )


def _logs(entries: list[dict[str, Any]]) -> dict[str, TrustedLog]:
    found = {
        entry["origin"]: TrustedLog(LogKey.parse(entry["vkey"], entry["origin"]), entry["finalSize"])
        for entry in entries
    }
    if len(found) != len(entries):
        raise VerificationError("trust-root", "a log is listed twice")
    return found


def _policy(written: str | None) -> WitnessPolicy:
    return WitnessPolicy() if written is None else parse_policy(written.encode())


def _check_one_use(
    roots: Mapping[str, Ed25519PublicKey],
    certificate: Mapping[str, Ed25519PublicKey],
    logs: Mapping[str, TrustedLog],
    policy: WitnessPolicy,
) -> None:
    """One key has one use: root, certificates, log or witness."""
    groups = (
        {key.public_bytes_raw() for key in roots.values()},
        {key.public_bytes_raw() for key in certificate.values()},
        {log.key.key.raw for log in logs.values()},
        {key.raw for key in policy.witnesses.values()},
    )
    if len(set().union(*groups)) != sum(map(len, groups)):
        raise VerificationError("trust-root", "one key has two uses (root, certificates, log, witness)")


def _check_logs(
    keys: Mapping[str, TrustedKey], logs: Mapping[str, TrustedLog], policy: WitnessPolicy
) -> None:
    """Either every certificate key has its log, or there is none at all and positions mean nothing."""
    for key in keys.values():
        if key.log not in (logs or {None}):
            raise VerificationError("trust-root", f"key {key.keyid} names no log of this trust root")
        if key.log is None and (key.from_index or key.until_index is not None):
            raise VerificationError("trust-root", f"key {key.keyid} has positions but no log")
        if key.until_index is not None and key.until_index < key.from_index:
            raise VerificationError("trust-root", f"key {key.keyid} ends before it begins")
    listed = {one.raw for one in policy.logs}
    if listed and any(log.key.key.raw not in listed for log in logs.values()):
        raise VerificationError("trust-root", "the witness policy lists other logs")


def load(path: Path, *later: Path, pin: str | None = None) -> TrustRoot:
    """Read and check a trust root file and the versions that follow it, oldest first.

    `pin` is the hash of the first one. An unreadable file is `VerificationError` (`trust-root`); see also
    `parse` and `follow`.
    """
    known = parse(_read(path), pin=pin)
    for one in later:
        known = follow(known, _read(one))
    return known


def follow_all(known: TrustRoot, chain: Iterable[bytes]) -> TrustRoot:
    """The newest version that `chain` leads to from `known`; what does not follow is ignored.

    For versions that come from outside (a bundle): nothing is trusted but what the thresholds of `known`
    lead to. Versions up to that of `known` are passed over.
    """
    for raw in chain:
        try:
            known = follow(known, raw)
        except VerificationError:
            continue
    return known


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LIMIT_BYTES * 2 + 1)
    except OSError as error:
        raise VerificationError("trust-root", f"{path.name} cannot be read: {error.strerror}") from None
