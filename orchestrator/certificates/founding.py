"""Making trust roots: documents and their signatures, and the keys of a new installation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import dsse, trust
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.trust import USAGES, TrustRoot
from orchestrator.log.checkpoint import log_key
from orchestrator.log.entry import shard_origin
from orchestrator.log.files import Disk
from orchestrator.verification import ed25519, wire

VALID_YEARS: Final = 2
ROOT_KEY_FILE: Final = "root.pem"
CERTIFICATE_KEY_FILE: Final = "certificate.pem"
LOG_KEY_FILE: Final = "log.pem"
_BASE_LENGTH: Final = 119  # with "/log/2026" an origin of 128
_NOT_IN_ORIGIN: Final = re.compile(r"[^a-z0-9._:@/_-]")


def key_entry(
    public: bytes,
    *,
    usages: Sequence[str] = USAGES,
    not_before: str,
    not_after: str,
    revoked: dict[str, Any] | None = None,
    log: str | None = None,
    from_index: int = 0,
    until_index: int | None = None,
) -> dict[str, Any]:
    """One entry of `certificateKeys`; `log` is the origin of the log that its positions count in."""
    return {
        **root_entry(public),
        "usages": list(usages),
        "log": log,
        "fromIndex": from_index,
        "untilIndex": until_index,
        "notBefore": not_before,
        "notAfter": not_after,
        "revoked": revoked,
    }


def log_entry(origin: str, public: bytes, *, final_size: int | None = None) -> dict[str, Any]:
    """One entry of `logs`."""
    return {"origin": origin, "vkey": log_key(origin, public).key.vkey, "finalSize": final_size}


def root_entry(public: bytes) -> dict[str, Any]:
    """One entry of `root.keys`."""
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
    logs: Sequence[dict[str, Any]] = (),
    witness_policy: str | None = None,
    previous: TrustRoot | None = None,
    signers: Sequence[SigningKey] | None = None,
) -> bytes:
    """The signed file of a trust root (not checked; `trust.parse` and `trust.follow` do that).

    Its version is one more than that of `previous`. It is signed by `signers`, by default by all of
    `roots`; a later version needs root keys of the version before it among them.
    """
    before = None if previous is None else {"version": previous.version, "sha256": previous.sha256}
    payload = canonical.encode(
        {
            "version": 1 if previous is None else previous.version + 1,
            "issuer": issuer,
            "issuedAt": issued_at,
            "expiresAt": expires_at,
            "previous": before,
            "root": {"threshold": threshold, "keys": [root_entry(key.public) for key in roots]},
            "certificateKeys": list(certificate_keys),
            "logs": list(logs),
            "witnessPolicy": witness_policy,
        }
    )
    signed = dsse.pae(dsse.TRUST_ROOT_TYPE, payload)
    signatures = [(key.keyid, key.sign(signed)) for key in (roots if signers is None else signers)]
    return dsse.encode(payload, dsse.TRUST_ROOT_TYPE, signatures)


def _key(path: Path, passphrase_file: Path | None) -> SigningKey:
    if path.exists():
        return SigningKey.load(path, passphrase_file)
    key = SigningKey.generate()
    key.save(path, passphrase_file)
    return key


def years_later(at: datetime, years: int = VALID_YEARS) -> str:
    """The UTC text of the same day in a later year, never after the 28th."""
    day = min(at.day, 28)
    return at.replace(year=at.year + years, day=day).strftime("%Y-%m-%dT%H:%M:%SZ")


def origin_of(issuer: str, year: int) -> str:
    """The origin of the issuer's log of a year; what an origin cannot have becomes a hyphen."""
    parts = [part.lstrip(".") for part in _NOT_IN_ORIGIN.sub("-", issuer)[:_BASE_LENGTH].split("/")]
    return shard_origin("/".join([*filter(None, parts), "log"]), year)


def create(
    keys: Path,
    trust_root: Path,
    *,
    issuer: str,
    now_unix_ms: int,
    passphrase_file: Path | None = None,
) -> TrustRoot:
    """Root key, certificate key and log key of a new installation, and its trust root.

    `keys` is a folder that only the owner can enter; key files that an interrupted call left there are
    used. Raises `CertificateError` when a trust root is there already.
    """
    if trust_root.exists():
        raise CertificateError(f"{trust_root.name} exists; a trust root is never overwritten")
    keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    root = _key(keys / ROOT_KEY_FILE, passphrase_file)
    certificate = _key(keys / CERTIFICATE_KEY_FILE, passphrase_file)
    log = _key(keys / LOG_KEY_FILE, passphrase_file)
    now = datetime.fromtimestamp(now_unix_ms // 1000, UTC)
    start, end = now.strftime("%Y-%m-%dT%H:%M:%SZ"), years_later(now)
    origin = origin_of(issuer, now.year)
    entry = key_entry(certificate.public, not_before=start, not_after=end, log=origin)
    raw = build(
        [root],
        [entry],
        issuer=issuer,
        issued_at=start,
        expires_at=end,
        logs=[log_entry(origin, log.public)],
    )
    checked = trust.parse(raw)
    Disk().publish(str(trust_root), raw)
    return checked
