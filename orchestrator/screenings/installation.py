"""What one installation owns: ledger, evidence store, trust root, and who signs."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.certificates import founding
from orchestrator.certificates.keys import KeyHolder
from orchestrator.certificates.logbook import Logbook
from orchestrator.certificates.signer import Signer
from orchestrator.certificates.trust import TrustRoot
from orchestrator.custody import passphrase
from orchestrator.custody.custodian import DRAFT_FILE, Custodian
from orchestrator.custody.keyring import Keyring
from orchestrator.custody.lock import locked
from orchestrator.custody.roots import RootStore
from orchestrator.custody.signer import HomeSigner, open_log
from orchestrator.errors import UsageError
from orchestrator.evidence.archive import open_store
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.records import newest_envelope
from orchestrator.verification import ed25519

ISSUER_VARIABLE: Final = "ASSIZE_ISSUER"
DEFAULT_ISSUER: Final = "assize.local/unnamed-lab"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._:@/+_-]{0,127}")


def home_label(root: Path) -> str:
    """What marks everything in an engine that belongs to the home in `root`: a digest of its path."""
    return hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Installation:
    """An opened home. Close it at the end."""

    home: Home
    ledger: Ledger
    store: EvidenceStore

    @classmethod
    def open(cls, home: Home) -> Installation:
        """Create what is missing and upgrade an old embedded ledger; `SchemaError` where it cannot."""
        home.prepare()
        return cls(home, open_ledger(home.database_url), open_store(home.evidence))

    @property
    def label(self) -> str:
        """What marks this home's containers; two homes never reap each other."""
        return home_label(self.home.root)

    def trust_root(self) -> TrustRoot:
        """The newest trust root; made with fresh keys the first time, under the issuer of ASSIZE_ISSUER."""
        if self.roots.exists:
            root = self.roots.current()
            if not self.roots.recorded:
                with locked(self.home.keys):
                    self.roots.record()
            return root
        if (self.home.keys / DRAFT_FILE).exists():
            raise UsageError(
                "the first trust root of this home is still a draft",
                hint="`assize keys status` says which signatures it needs; `assize keys publish` ends it",
            )
        issuer = os.environ.get(ISSUER_VARIABLE, DEFAULT_ISSUER)
        if not _ID.fullmatch(issuer):
            raise UsageError(f"{ISSUER_VARIABLE} is {issuer!r}: lower-case letters, digits and ._:@/+- only")
        with locked(self.home.keys):
            if not self.roots.exists:
                founding.create(
                    self.home.keys,
                    self.home.trust_root,
                    issuer=issuer,
                    now_unix_ms=time.time_ns() // 1_000_000,
                    passphrase_file=passphrase.provide(self.home.keys).path,
                )
        return self.trust_root()

    @cached_property
    def roots(self) -> RootStore:
        """Every version of the trust root."""
        return RootStore.of(self.home)

    @cached_property
    def keyring(self) -> Keyring:
        """The keys of this home."""
        return Keyring(self.home.keys, lambda: passphrase.path_of(self.home.keys))

    def signer(self) -> Signer:
        """The signer over the certificate keys of this home. Workers never call this."""
        self.trust_root()
        custodian = Custodian(self.home)
        signer = HomeSigner(
            self.keyring,
            self.store,
            self.trust_root,
            lambda origin: custodian.log_size(self.trust_root().logs[origin]),
        )
        self.keyring.holder(signer.keyid)  # a key that is missing or locked is noticed before anything starts
        return signer

    def logbook(self) -> Logbook | None:
        """The log in which everything signed here is entered; None under a trust root without logs.

        One for the life of this installation, as a log is read when it is first written.
        """
        return self._logbook if self.trust_root().logs else None

    @cached_property
    def _logbook(self) -> Logbook:
        return Logbook(
            self.home.log,
            self.home.log_state,
            self.trust_root,
            self._log_key,
            stored=lambda: newest_envelope(self.ledger),
        )

    def _log_key(self) -> KeyHolder:
        """The key of the log that is written to."""
        root = self.trust_root()
        log = root.logs[open_log(root) or ""]
        return self.keyring.holder(ed25519.key_id(log.key.key.raw))

    def close(self) -> None:
        """Give database connections back."""
        self.ledger.close()
