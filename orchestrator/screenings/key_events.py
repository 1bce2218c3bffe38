"""Telling readers what happened to a key: a notice in the log, beside the trust root that decides.

A notice changes nothing (the trust root does), so what cannot be announced now stops nothing: it is said,
and the same command or `assize certificates notice` does it later. Again is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.certificates.notice_statement import KeyEvent
from orchestrator.certificates.trust import TrustRoot
from orchestrator.errors import AssizeError
from orchestrator.home import Home
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.noticing import Request, draft, issue


@dataclass(frozen=True)
class Announced:
    """A notice about a key: its digest, or why there is none."""

    keyid: str
    event: KeyEvent
    digest: str | None
    problem: str | None = None


def announce_destroyed(home: Home, root: TrustRoot, keyid: str) -> list[Announced]:
    """The last step of a rotation; nothing for a key that is no certificate key of a log."""
    return _announced(home, root, {keyid: "its private key was destroyed"}, "destroyed")


def announce_revoked(home: Home, root: TrustRoot) -> list[Announced]:
    """Every revocation of the trust root in use, each announced once."""
    reasons = {
        key.keyid: f"revoked from entry {key.revoked_from} of {key.log} on"
        for key in root.keys.values()
        if key.revoked_from is not None
    }
    return _announced(home, root, reasons, "revoked")


def _announced(home: Home, root: TrustRoot, reasons: dict[str, str], event: KeyEvent) -> list[Announced]:
    wanted = {keyid: why for keyid, why in reasons.items() if keyid in root.keys and root.keys[keyid].log}
    if not wanted:
        return []
    try:
        installation = Installation.open(home)
    except AssizeError as error:
        return [Announced(keyid, event, None, error.message) for keyid in wanted]
    try:
        return [_one(installation, keyid, event, why) for keyid, why in wanted.items()]
    finally:
        installation.close()


def _one(installation: Installation, keyid: str, event: KeyEvent, why: str) -> Announced:
    try:
        asked = Request(target=keyid, kind="key-event", reason=why, event=event)
        return Announced(keyid, event, issue(installation, draft(installation, asked)).digest)
    except AssizeError as error:
        return Announced(keyid, event, None, error.message)
