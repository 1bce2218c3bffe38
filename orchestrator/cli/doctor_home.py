"""Checks of one home: folder, ledger and its invariants, evidence store, logs, leftovers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from orchestrator.certificates.trust import TrustedLog
from orchestrator.cli.doctor_host import nearest_folder
from orchestrator.cli.failures import expected
from orchestrator.cli.findings import Finding, Health, broken, missing, ok, warn
from orchestrator.custody.roots import RootStore
from orchestrator.engine.celery.times import Times
from orchestrator.errors import AssizeError
from orchestrator.evidence.archive import VARIABLE, open_store
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger import invariants
from orchestrator.ledger.db import Ledger, create_engine, sqlite_file
from orchestrator.ledger.migrate import HEAD, current
from orchestrator.ledger.rules import check_rules
from orchestrator.log.proof import LogVerifier
from orchestrator.log.reader import LogReader
from orchestrator.screenings.attempts import liveness_of
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.relay_checks import RELAY_CHECKS, relay_violations
from orchestrator.verification.errors import VerificationError

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
        if sqlite_file(opened.engine.url) is None and found != HEAD:
            told = f"{opened.url} has schema {found or 'none'}, this version needs {HEAD}"
            return [missing("ledger", told, "assize db upgrade")]
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


def relay_keys(home: Home, opened: Ledger) -> list[Finding]:
    """Invariants 8 and 13: no call through a relay after the end of its attempt."""
    found = relay_violations(home, opened, beat_ms=Times().beat_ms)
    return [
        _invariant(number, name, [one.message for one in found if one.number == number])
        for number, name in RELAY_CHECKS
    ]


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
    try:
        store = open_store(home.evidence)
        store.probe()
    except AssizeError as error:
        mend = f"see {VARIABLE} and what boto3 is told (AWS_ENDPOINT_URL_S3, AWS_SHARED_CREDENTIALS_FILE)"
        return missing("evidence store", error.message, mend)
    behind = "" if store.archive is None else f", and {store.archive.url} behind it keeps and gives back"
    return ok("evidence store", f"{home.evidence} can be written to{behind}")


def logs(home: Home) -> list[Finding]:
    """Every log of the trust root that is kept here: signed by its key, with the files of its last tree."""
    try:
        roots = RootStore.of(home)
        return [_log(home, one) for one in roots.current().logs.values()] if roots.exists else []
    except (AssizeError, VerificationError):
        return []  # what is wrong with the trust root is said with the keys


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
