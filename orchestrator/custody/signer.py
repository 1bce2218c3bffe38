"""Which of a home's keys signs next: the one whose positions the log has reached, and never a frozen one.

The trust root is looked at for every statement, so that a version that is published while a screening runs
holds from its next certificate on, and the writer changes keys by itself at the index that was chosen.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.certificates import schema
from orchestrator.certificates.errors import SigningRefusedError
from orchestrator.certificates.signer import FileSigner, Signed
from orchestrator.certificates.statements import Statement
from orchestrator.certificates.trust import USAGES, TrustedKey, TrustRoot
from orchestrator.custody.errors import KeyFrozenError
from orchestrator.custody.keyring import Keyring
from orchestrator.evidence.store import EvidenceStore


def open_log(root: TrustRoot) -> str | None:
    """The origin of the log that is written to: the last one listed that has not ended; None without logs."""
    still = [origin for origin, log in root.logs.items() if log.final_size is None]
    if root.logs and not still:
        raise SigningRefusedError(
            "every log of the trust root has ended", hint="begin a new one: assize keys new-log"
        )
    return still[-1] if still else None


def candidates(root: TrustRoot, usage: str, index: int) -> list[TrustedKey]:
    """The keys that may sign entry `index` of the open log, the newest first; dates are not looked at."""
    origin = open_log(root)
    fit = [
        key
        for key in root.keys.values()
        if (key.log, key.revoked_from) == (origin, None) and usage in key.usages and not key.objections(index)
    ]
    placed = sorted(enumerate(fit), key=lambda item: (item[1].from_index, item[0]), reverse=True)
    return [key for _, key in placed]


class HomeSigner:
    """A `Signer` over all keys of a home. `size_of` tells how many entries the log of an origin has."""

    def __init__(
        self,
        keyring: Keyring,
        store: EvidenceStore,
        trust: Callable[[], TrustRoot],
        size_of: Callable[[str], int],
    ) -> None:
        self._keyring = keyring
        self._store = store
        self._trust = trust
        self._size_of = size_of

    @property
    def keyid(self) -> str:
        """The id of the key that would sign a certificate now."""
        return self._choose(self._trust(), schema.TRY, None).keyid

    def sign(self, statement: Statement) -> Signed:
        """Check and sign with the key of the next position; raises `SigningRefusedError`, `CustodyError`."""
        root = self._trust()
        key = self._choose(root, statement.kind, statement.as_data()["predicate"]["time"]["issuedAt"])
        return FileSigner(self._keyring.signing(key.keyid), self._store, root).sign(statement)

    def _choose(self, root: TrustRoot, usage: str, at: str | None) -> TrustedKey:
        origin = open_log(root)
        index = 0 if origin is None else self._size_of(origin)
        fit = candidates(root, usage, index)
        if at is not None:
            fit = [key for key in fit if root.usable(key.keyid, usage, at)] or fit  # the signer will say why
        for key in fit:
            if self._keyring.frozen(key.keyid) is None and self._keyring.holds(key.keyid):
                return key
        for key in fit:
            self._keyring.signing(key.keyid)  # raises why not
        frozen = [key for key in root.keys if self._keyring.frozen(key) is not None]
        if frozen:
            raise KeyFrozenError(
                f"no key may sign {usage}: {frozen[-1]} is frozen and none takes its place",
                hint="`assize keys status` says what is missing",
            )
        if any(candidates(root, other, index) for other in USAGES):
            raise SigningRefusedError(
                f"the trust root lists no usage {usage} for a key that may sign now",
                hint="a key that `assize keys rotate` makes has it; draft one, sign and publish",
            )
        raise SigningRefusedError(
            f"the trust root has no key that may sign {usage} at entry {index}",
            hint="`assize keys status`; a new key comes with `assize keys rotate`",
        )
