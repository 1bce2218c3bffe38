"""Checks of one home: folder, ledger and its invariants, evidence store, keys, trust root, leftovers."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from orchestrator.certificates import schema, trust
from orchestrator.certificates.founding import CERTIFICATE_KEY_FILE, LOG_KEY_FILE, ROOT_KEY_FILE
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.trust import TrustedLog, TrustRoot
from orchestrator.cli.doctor_host import nearest_folder
from orchestrator.cli.failures import expected
from orchestrator.cli.findings import Finding, Health, broken, missing, ok, warn
from orchestrator.errors import AssizeError
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger import invariants
from orchestrator.ledger.db import Ledger, create_engine, sqlite_file
from orchestrator.ledger.migrate import HEAD, current
from orchestrator.ledger.rules import check_rules
from orchestrator.log.proof import LogVerifier
from orchestrator.log.reader import LogReader
from orchestrator.screenings.attempts import liveness_of
from orchestrator.screenings.installation import PASSPHRASE_VARIABLE, Installation
from orchestrator.verification.errors import VerificationError

EXPIRY_WARNING: Final = timedelta(days=60)
_LEASES: Final = 11
_SHOWN: Final = 3
_FIRST: Final = "made by the first screening"
_RESUME: Final = "the next `assize screen` of the same screening takes its attempts over"


def folder(home: Home) -> Finding:
    """Whether the home can be used or made."""
    if home.root.is_dir():
        if not os.access(home.root, os.W_OK | os.X_OK):
            return missing("home", f"{home.root} cannot be written to", "mend its mode, or use --home")
        return ok("home", str(home.root))
    if home.root.exists():
        return missing("home", f"{home.root} is a file, not a folder", "name a folder with --home")
    above = nearest_folder(home.root)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return missing("home", f"{home.root} cannot be made below {above}", "use --home or ASSIZE_HOME")
    return ok("home", f"{home.root} does not exist yet; {_FIRST}")


@contextmanager
def ledger(home: Home) -> Iterator[tuple[Ledger | None, list[Finding]]]:
    """The ledger, opened without changing its schema, and what is wrong with it; None if unusable."""
    path = sqlite_file(home.database_url)
    if path is not None and not path.is_file():
        yield None, [ok("ledger", f"{path} does not exist yet; {_FIRST}")]
        return
    opened = Ledger(create_engine(home.database_url))
    try:
        findings = _schema(opened)
        # Queries are written for the newest schema only.
        usable = all(finding.health is Health.OK for finding in findings)
        yield (opened if usable else None), findings
    finally:
        opened.close()


def _schema(opened: Ledger) -> list[Finding]:
    try:
        found = current(opened)
        if found is None:
            return [broken("ledger", f"{opened.url} is no ledger of Assize", "give Assize its own database")]
        if found != HEAD:
            return [
                warn(
                    "ledger",
                    f"schema {found}, this version needs {HEAD}",
                    "any command upgrades it (copy kept)",
                )
            ]
        with opened.reading() as connection:
            check_rules(connection)
    except AssizeError as error:
        return [broken("ledger", error.message, error.hint or "restore a backup of the database")]
    except Exception as error:  # noqa: BLE001 - a database fails in its own classes; all mean unreadable
        return [broken("ledger", expected(error).message, "restore a backup of the database")]
    return [ok("ledger", f"{opened.url}, schema {found}, all rules in place")]


def ledger_invariants(opened: Ledger) -> list[Finding]:
    """One row per invariant of reference/distribution.md 4.6."""
    found = invariants.violations(opened)
    return [
        _invariant(number, name, [one.message for one in found if (one.number, one.name) == (number, name)])
        for number, name, _ in invariants.CHECKS
    ]


def _invariant(number: int, name: str, messages: list[str]) -> Finding:
    check = f"invariant {number}: {name}"
    if not messages:
        return ok(check, "holds")
    more = f" and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
    text = f"{'; '.join(messages[:_SHOWN])}{more}"
    if number == _LEASES:
        return warn(check, text, _RESUME)
    return broken(check, text, "restore a backup of the ledger; do not score what it concerns")


def evidence(home: Home) -> Finding:
    """Write a few bytes to the store and take them back."""
    if not home.evidence.is_dir():
        return ok("evidence store", f"{home.evidence} does not exist yet; {_FIRST}")
    try:
        writer = EvidenceStore(home.evidence).writer()
        try:
            writer.write(b"assize doctor")
        finally:
            writer.abort()
    except AssizeError as error:
        return missing("evidence store", error.message, "free space or mend the mode of the folder")
    return ok("evidence store", f"{home.evidence} can be written to")


def keys(home: Home) -> list[Finding]:
    """The key files, their modes, and the trust root they belong to; a log key where it lists a log."""
    names = [ROOT_KEY_FILE, CERTIFICATE_KEY_FILE]
    there = [name for name in names if (home.keys / name).exists()]
    if not there and not home.trust_root.exists():
        return [ok("keys", f"none yet; {_FIRST}"), ok("trust root", f"none yet; {_FIRST}")]
    findings, root = [], _trust_root(home)
    if isinstance(root, TrustRoot) and root.logs:
        names.append(LOG_KEY_FILE)
    findings.append(root if isinstance(root, Finding) else _expiry(root))
    mode = stat.S_IMODE(home.keys.stat().st_mode) if home.keys.is_dir() else None
    if mode is not None and mode & 0o077:
        findings.append(broken("key folder", f"{home.keys} has mode {mode:04o}", f"chmod 700 {home.keys}"))
    for name in names:
        findings.append(_key(home.keys / name, None if isinstance(root, Finding) else root))
    return findings


def _trust_root(home: Home) -> TrustRoot | Finding:
    try:
        return trust.load(home.trust_root)
    except VerificationError as error:
        return broken("trust root", error.message, "restore trust-root.json from the published copy")


def _expiry(root: TrustRoot) -> Finding:
    now = datetime.now(UTC)
    text = f"version {root.version}, {root.issuer}, expires {root.expires_at}, sha256 {root.sha256[:16]}"
    expires = datetime.fromisoformat(root.expires_at)
    if expires <= now:
        return broken("trust root", f"expired: {text}", "publish a new trust root")
    if expires - now < EXPIRY_WARNING:
        return warn("trust root", text, "publish a new trust root before it expires")
    return ok("trust root", text)


def _key(path: Path, root: TrustRoot | None) -> Finding:
    check = f"key {path.stem}"
    if not path.exists():
        return missing(
            check, f"{path} is not there", "restore it from a backup; a lost key is replaced by a new root"
        )
    named = os.environ.get(PASSPHRASE_VARIABLE)
    try:
        key = SigningKey.load(path, Path(named) if named else None)
    except AssizeError as error:
        return broken(check, error.message, error.hint or f"restore {path} from a backup")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    log_keys = None if root is None else {log.key.key.raw for log in root.logs.values()}
    if path.name == LOG_KEY_FILE and log_keys is not None and key.public not in log_keys:
        return broken(check, "signs for no log of the trust root", "restore the matching pair")
    certifies = path.name == CERTIFICATE_KEY_FILE
    if certifies and root is not None and not root.usable(key.keyid, schema.TRY, now):
        return broken(
            check, f"key {key.keyid} may not sign under this trust root", "restore the matching pair"
        )
    return ok(check, f"{key.keyid}, readable by its owner only")


def logs(home: Home) -> list[Finding]:
    """Every log of the trust root that is kept here: signed by its key, with the files of its last tree."""
    root = _trust_root(home) if home.trust_root.exists() else None
    return [_log(home, one) for one in root.logs.values()] if isinstance(root, TrustRoot) else []


def _log(home: Home, log: TrustedLog) -> Finding:
    origin = log.key.origin
    check, folder = f"log {origin}", home.log / origin
    if not folder.exists() and not (home.log_state / origin).exists():
        return ok(check, f"empty; {_FIRST}")
    try:
        reader = LogReader(folder, LogVerifier(log.key))
        if reader.tiles.root() != reader.checkpoint.root:
            raise VerificationError("log-root", "the tiles do not give the signed root")
    except VerificationError as error:
        mend = f"restore {folder} from the published copy; a log is never begun again"
        return broken(check, error.message, mend)
    return ok(check, f"{reader.checkpoint.size} entries in {folder}")


def leftovers(home: Home, opened: Ledger | None, client: Any | None) -> Finding:
    """Containers of this home without a live attempt; they are listed, never removed here."""
    check = "leftover containers"
    if client is None:
        return warn(check, "unknown without an engine", "see the docker engine's row")
    if not home.root.is_dir():
        return ok(check, "none: nothing was screened here")
    # Only the home's path makes the label, so that a home whose ledger is gone is looked at too.
    label = Installation(
        home, opened or Ledger(create_engine("sqlite://")), EvidenceStore(home.evidence)
    ).label
    is_live = (lambda label: False) if opened is None else liveness_of(opened)
    dead = []
    for found in client.containers(all=True, filters={"label": f"assize.home={label}"}):
        attempt = (found.get("Labels") or {}).get("assize.attempt")
        if attempt is not None and not is_live(str(attempt)):
            dead.append(f"{found['Id'][:12]} ({found.get('State', 'unknown')})")
    if not dead:
        return ok(check, "none")
    return warn(check, ", ".join(dead), "the next `assize screen` in this home removes them")
