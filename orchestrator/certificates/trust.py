"""The trust root: which keys may sign which statements (certificates.md 3.5).

One DSSE envelope, signed by its own root keys; a verifier trusts version 1 by its pinned hash, the
SHA-256 of the file. Chains of later versions, logs and witnesses are fields of the format that this
version does not use: a document that needs them is refused as `trust-root-version`, never half read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator import canonical
from orchestrator.certificates import dsse, schema
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.shapes import (
    BASE64_KEY,
    KEY_ID,
    NULL,
    Shape,
    integer,
    many,
    nullable,
    record,
    text,
    words,
)
from orchestrator.certificates.shapes import (
    UTC as UTC_PATTERN,
)
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import VerificationError

LIMIT_BYTES: Final = 256 * 1024
USAGES: Final = (schema.OPENING, schema.TRY, schema.SUMMARY)
VALID_YEARS: Final = 2
ROOT_KEY_FILE: Final = "root.pem"
CERTIFICATE_KEY_FILE: Final = "certificate.pem"

_utc = text(UTC_PATTERN)
_KEY: Final[dict[str, Shape]] = {
    "keyid": text(KEY_ID),
    "alg": words(ed25519.ALGORITHM),
    "public": text(BASE64_KEY),
}
_DOCUMENT: Final = record(
    {
        "version": integer(1),
        "issuer": text(r"[a-z0-9][a-z0-9._:@/+_-]{0,127}"),
        "issuedAt": _utc,
        "expiresAt": _utc,
        "previous": NULL,
        "root": record(
            {"threshold": integer(1, dsse.MAX_SIGNATURES), "keys": many(record(_KEY, closed=True), 16, 1)},
            closed=True,
        ),
        "certificateKeys": many(
            record(
                {
                    **_KEY,
                    "usages": many(text(r"[a-z-]{1,64}/v[0-9]{1,4}"), 16, 1),
                    "log": NULL,
                    "fromIndex": integer(0, 0),
                    "untilIndex": NULL,
                    "notBefore": _utc,
                    "notAfter": _utc,
                    "revoked": nullable(
                        record(
                            {"fromIndex": integer(), "reason": text(r"[a-z-]{1,64}"), "announcedAt": _utc},
                            closed=True,
                        )
                    ),
                },
                closed=True,
            ),
            64,
            1,
        ),
        "logs": many(NULL, 0),
        "witnessPolicy": NULL,
    },
    closed=True,
)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A certificate key with what it may sign and when (UTC strings, compared as text)."""

    keyid: str
    public: Ed25519PublicKey
    usages: frozenset[str]
    not_before: str
    not_after: str
    revoked: bool


@dataclass(frozen=True)
class TrustRoot:
    """A checked trust root. `sha256` is the hash of the file, the value that is pinned and published."""

    version: int
    issuer: str
    issued_at: str
    expires_at: str
    sha256: str
    keys: dict[str, TrustedKey]

    def usable(self, keyid: str, usage: str, at: str) -> bool:
        """Whether a statement of `usage` signed now (`at`, UTC text) by `keyid` would verify."""
        key = self.keys.get(keyid)
        return (
            key is not None
            and usage in key.usages
            and not key.revoked
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


def parse(raw: bytes, *, pin: str | None = None) -> TrustRoot:
    """Check a trust root file; raises `VerificationError` (`trust-root`, `trust-root-pin`, ...).

    `pin` is the expected SHA-256 of the file; without it the document only proves itself, and the caller
    should say so.
    """
    if len(raw) > LIMIT_BYTES * 2:
        raise VerificationError("too-large", f"a trust root of {len(raw)} bytes")
    sha256 = hashlib.sha256(raw).hexdigest()
    if pin is not None and pin != sha256:
        raise VerificationError("trust-root-pin", f"the trust root has the hash {sha256}, pinned is {pin}")
    try:
        envelope = dsse.decode(raw, dsse.TRUST_ROOT_TYPE, LIMIT_BYTES)
        document = wire.parse(envelope.payload)
    except VerificationError as error:
        raise _refused(error) from None
    if isinstance(document, dict) and document.get("version") != 1:
        raise VerificationError("trust-root-version", "only version 1 of a trust root is understood here")
    try:
        _DOCUMENT.check(document, [])
        return _checked(document, envelope, sha256)
    except VerificationError as error:
        raise _refused(error) from None


def _checked(document: dict[str, Any], envelope: dsse.Envelope, sha256: str) -> TrustRoot:
    roots = _unique(document["root"]["keys"])
    public = _unique(document["certificateKeys"])
    if roots.keys() & public.keys():
        raise VerificationError("trust-root", "a root key is also a certificate key")
    signed = envelope.signed_bytes()
    votes = sum(
        keyid in roots and ed25519.verifies(roots[keyid], signature, signed)
        for keyid, signature in envelope.signatures
    )
    if votes < document["root"]["threshold"]:
        raise VerificationError("trust-root", "not signed by enough of its root keys")
    keys = {
        entry["keyid"]: TrustedKey(
            entry["keyid"],
            public[entry["keyid"]],
            frozenset(entry["usages"]),
            entry["notBefore"],
            entry["notAfter"],
            entry["revoked"] is not None,
        )
        for entry in document["certificateKeys"]
    }
    return TrustRoot(1, document["issuer"], document["issuedAt"], document["expiresAt"], sha256, keys)


def load(path: Path, *, pin: str | None = None) -> TrustRoot:
    """Read and check a trust root file; an unreadable file is `VerificationError` (`trust-root`)."""
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT_BYTES * 2 + 1)
    except OSError as error:
        raise VerificationError("trust-root", f"{path.name} cannot be read: {error.strerror}") from None
    return parse(raw, pin=pin)


def key_entry(
    public: bytes,
    *,
    usages: Sequence[str] = USAGES,
    not_before: str,
    not_after: str,
    revoked: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One entry of `certificateKeys`."""
    return {
        **_root_entry(public),
        "usages": list(usages),
        "log": None,
        "fromIndex": 0,
        "untilIndex": None,
        "notBefore": not_before,
        "notAfter": not_after,
        "revoked": revoked,
    }


def _root_entry(public: bytes) -> dict[str, Any]:
    return {
        "keyid": ed25519.key_id(public),
        "alg": ed25519.ALGORITHM,
        "public": wire.base64_encode(public).decode(),
    }


def build(
    roots: Sequence[SigningKey],
    certificate_keys: Sequence[dict[str, Any]],
    *,
    issuer: str,
    issued_at: str,
    expires_at: str,
    threshold: int = 1,
) -> bytes:
    """The signed file of a version 1 trust root (not checked; `parse` does that)."""
    payload = canonical.encode(
        {
            "version": 1,
            "issuer": issuer,
            "issuedAt": issued_at,
            "expiresAt": expires_at,
            "previous": None,
            "root": {"threshold": threshold, "keys": [_root_entry(key.public) for key in roots]},
            "certificateKeys": list(certificate_keys),
            "logs": [],
            "witnessPolicy": None,
        }
    )
    signed = dsse.pae(dsse.TRUST_ROOT_TYPE, payload)
    return dsse.encode(payload, dsse.TRUST_ROOT_TYPE, [(key.keyid, key.sign(signed)) for key in roots])


def _key(path: Path, passphrase_file: Path | None) -> SigningKey:
    if path.exists():
        return SigningKey.load(path, passphrase_file)
    key = SigningKey.generate()
    key.save(path, passphrase_file)
    return key


def _years_later(at: datetime, years: int) -> str:
    day = min(at.day, 28)
    return at.replace(year=at.year + years, day=day).strftime("%Y-%m-%dT%H:%M:%SZ")


def create(
    keys: Path,
    trust_root: Path,
    *,
    issuer: str,
    now_unix_ms: int,
    passphrase_file: Path | None = None,
) -> TrustRoot:
    """A root key, a certificate key and the trust root of a new installation.

    `keys` is a folder that only the owner can enter; key files that an interrupted call left there are
    used. Raises `CertificateError` when a trust root is there already.
    """
    if trust_root.exists():
        raise CertificateError(f"{trust_root.name} exists; a trust root is never overwritten")
    keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    root = _key(keys / ROOT_KEY_FILE, passphrase_file)
    certificate = _key(keys / CERTIFICATE_KEY_FILE, passphrase_file)
    now = datetime.fromtimestamp(now_unix_ms // 1000, UTC)
    start, end = now.strftime("%Y-%m-%dT%H:%M:%SZ"), _years_later(now, VALID_YEARS)
    entry = key_entry(certificate.public, not_before=start, not_after=end)
    raw = build([root], [entry], issuer=issuer, issued_at=start, expires_at=end)
    checked = parse(raw)
    temporary = trust_root.with_name(trust_root.name + ".new")
    temporary.write_bytes(raw)
    os.replace(temporary, trust_root)
    return checked
