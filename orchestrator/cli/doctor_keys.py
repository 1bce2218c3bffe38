"""Checks of the keys of one home and of the trust root that they belong to."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from typing import Final

from orchestrator.certificates import schema
from orchestrator.certificates.founding import CERTIFICATE_KEY_FILE, LOG_KEY_FILE
from orchestrator.certificates.trust import TrustRoot
from orchestrator.cli.findings import Finding, Health, broken, missing, ok, warn
from orchestrator.custody import passphrase
from orchestrator.custody.custodian import Custodian
from orchestrator.custody.keyring import HeldKey
from orchestrator.custody.status import SOON, Status, status
from orchestrator.errors import AssizeError
from orchestrator.home import Home
from orchestrator.verification.errors import VerificationError

_FIRST: Final = "made by the first screening"
_RESTORE: Final = "restore it from a backup; a lost key is replaced: assize keys"


def keys(home: Home) -> list[Finding]:
    """The trust root, the key folder, the keys that have to sign, and where their passphrase is."""
    custodian = Custodian(home)
    if not custodian.roots.exists and not list(custodian.keyring.entries()):
        return [ok("keys", f"none yet; {_FIRST}"), ok("trust root", f"none yet; {_FIRST}")]
    findings = [_trust_root(custodian)]
    mode = stat.S_IMODE(home.keys.stat().st_mode) if home.keys.is_dir() else 0
    if mode & 0o077:
        findings.append(broken("key folder", f"{home.keys} has mode {mode:04o}", f"chmod 700 {home.keys}"))
    held = {one.path.name: one for one in custodian.keyring.entries()}
    findings += _passphrase(home, list(held.values()))
    if findings[0].health is Health.BROKEN and not _reads(custodian):
        return findings
    found = status(custodian)
    if found.root is None:
        return [*findings, warn("key ceremony", "the first trust root is a draft", "assize keys status")]
    return findings + _signing(home, found, found.root, held) + _custody(found)


def _trust_root(custodian: Custodian) -> Finding:
    try:
        if not custodian.roots.exists:
            return ok("trust root", "none yet: a ceremony is under way")
        root = custodian.roots.current()
    except VerificationError as error:
        return broken(
            "trust root", error.message, "restore the files trust-root*.json from the published copy"
        )
    except AssizeError as error:
        return broken("trust root", error.message, error.hint or "restore it from the published copy")
    now = datetime.now(UTC)
    text = f"version {root.version}, {root.issuer}, expires {root.expires_at}, sha256 {root.sha256[:16]}"
    expires = datetime.fromisoformat(root.expires_at)
    if expires <= now:
        return broken("trust root", f"expired: {text}", "publish a new one: assize keys ceremony")
    if expires - now < SOON:
        return warn("trust root", text, "publish a new one before it expires: assize keys ceremony")
    return ok("trust root", text)


def _reads(custodian: Custodian) -> bool:
    """Whether there is a trust root to compare the keys with."""
    try:
        return custodian.roots.exists and custodian.roots.current().version > 0
    except (AssizeError, VerificationError):
        return False


def _passphrase(home: Home, held: list[HeldKey]) -> list[Finding]:
    check, found = "key passphrase", passphrase.find(home.keys)
    plain = [one.path.name for one in held if one.is_plain]
    if plain:
        return [warn(check, f"not encrypted: {', '.join(plain)}", "assize keys encrypt")]
    if not any(one.encrypted for one in held):
        return []
    if found is None:
        told = f"{passphrase.NAME_FILE} is not in {home.keys}"
        return [missing(check, told, f"restore it, or name the passphrase file with {passphrase.VARIABLE}")]
    if not found.path.is_file():
        mend = f"restore it, or name the file with {passphrase.VARIABLE}; without it the keys are lost"
        return [missing(check, f"{found.path} is not there", mend)]
    return [ok(check, f"in {found.path}; keep a copy apart from the home: without it the keys are lost")]


def _signing(home: Home, found: Status, root: TrustRoot, held: dict[str, HeldKey]) -> list[Finding]:
    """Whether a certificate could be signed and logged now."""
    findings, now = [], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    turn = next((key for key in found.keys if key.signs), None)
    if turn is None:
        findings.append(
            _absent("key certificate", held.get(CERTIFICATE_KEY_FILE), "may not sign under this trust root")
        )
    elif not root.usable(turn.keyid, schema.TRY, now):
        told = f"key {turn.keyid} may not sign under this trust root"
        findings.append(broken("key certificate", told, "a new key: assize keys rotate"))
    else:
        findings.append(ok("key certificate", f"{turn.keyid}, {_how(turn.keyid, held)}"))
    for log in found.logs:
        if log.open and log.held:
            findings.append(ok("key log", f"{log.keyid}, {_how(log.keyid, held)}"))
        elif log.open:
            findings.append(_absent("key log", held.get(LOG_KEY_FILE), "signs for no log of the trust root"))
    here = [keyid for keyid in root.root_keys if any(one.keyid == keyid for one in held.values())]
    told = f"{len(here)} of {len(root.root_keys)} are here, {root.threshold} must sign a new trust root"
    return [*findings, ok("keys root", told)]


def _absent(check: str, first: HeldKey | None, foreign: str) -> Finding:
    """Why the key that is needed is not there; `first` is the file where the first one was."""
    if first is None:
        return missing(check, "the key is not here", _RESTORE)
    if first.problem is not None:
        mend = f"chmod 600 {first.path}" if "open to other users" in first.problem else _RESTORE
        return broken(check, first.problem, mend)
    return broken(check, foreign, "restore the matching pair of key and trust root")


def _how(keyid: str, held: dict[str, HeldKey]) -> str:
    for one in held.values():
        if one.keyid == keyid:
            return "behind a program" if one.is_command else "readable by its owner only"
    return "held"


def _custody(found: Status) -> list[Finding]:
    findings = [
        warn("key custody", told, "assize keys status")
        for told in found.warnings
        if " frozen: " in told or told.startswith("key ")
    ]
    if found.draft is not None:
        findings.append(
            warn("trust root draft", f"version {found.draft.version} is not published", "assize keys status")
        )
    return findings
