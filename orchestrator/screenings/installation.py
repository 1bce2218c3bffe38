"""What one installation owns: ledger, evidence store, trust root, and who signs."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.certificates import founding, trust
from orchestrator.certificates.founding import CERTIFICATE_KEY_FILE, LOG_KEY_FILE
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.logbook import Logbook
from orchestrator.certificates.signer import FileSigner, Signer
from orchestrator.certificates.trust import TrustRoot
from orchestrator.errors import UsageError
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.records import newest_envelope

ISSUER_VARIABLE: Final = "ASSIZE_ISSUER"
PASSPHRASE_VARIABLE: Final = "ASSIZE_KEY_PASSPHRASE_FILE"
DEFAULT_ISSUER: Final = "assize.local/unnamed-lab"
_ID: Final = re.compile(r"[a-z0-9][a-z0-9._:@/+_-]{0,127}")


@dataclass(frozen=True)
class Installation:
    """An opened home. Close it at the end."""

    home: Home
    ledger: Ledger
    store: EvidenceStore
    _logbooks: dict[str, Logbook] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, home: Home) -> Installation:
        """Create what is missing and upgrade an old embedded ledger; `SchemaError` where it cannot."""
        home.prepare()
        return cls(home, open_ledger(home.database_url), EvidenceStore(home.evidence))

    @property
    def label(self) -> str:
        """What marks this home's containers: a digest of its path; two homes never reap each other."""
        return hashlib.sha256(str(self.home.root.resolve()).encode()).hexdigest()[:16]

    def trust_root(self) -> TrustRoot:
        """The trust root; made with fresh keys the first time, under the issuer named by ASSIZE_ISSUER."""
        if self.home.trust_root.exists():
            return trust.load(self.home.trust_root)
        issuer = os.environ.get(ISSUER_VARIABLE, DEFAULT_ISSUER)
        if not _ID.fullmatch(issuer):
            raise UsageError(f"{ISSUER_VARIABLE} is {issuer!r}: lower-case letters, digits and ._:@/+- only")
        return founding.create(
            self.home.keys,
            self.home.trust_root,
            issuer=issuer,
            now_unix_ms=time.time_ns() // 1_000_000,
            passphrase_file=_passphrase_file(),
        )

    def signer(self) -> Signer:
        """The signer over the certificate key of this home. Workers never call this."""
        root = self.trust_root()
        key = SigningKey.load(self.home.keys / CERTIFICATE_KEY_FILE, _passphrase_file())
        return FileSigner(key, self.store, root)

    def logbook(self) -> Logbook | None:
        """The log in which everything signed here is entered; None under a trust root without logs.

        One for the life of this installation and its trust root, as a log is read when it is first written.
        """
        root = self.trust_root()
        if not root.logs:
            return None
        if root.sha256 not in self._logbooks:
            # Read when something is entered, and once: a passphrase is slow to open by design.
            key = cache(lambda: SigningKey.load(self.home.keys / LOG_KEY_FILE, _passphrase_file()))
            self._logbooks[root.sha256] = Logbook(
                self.home.log, self.home.log_state, root, key, stored=lambda: newest_envelope(self.ledger)
            )
        return self._logbooks[root.sha256]

    def close(self) -> None:
        """Give database connections back."""
        self.ledger.close()


def _passphrase_file() -> Path | None:
    named = os.environ.get(PASSPHRASE_VARIABLE)
    return Path(named) if named else None
