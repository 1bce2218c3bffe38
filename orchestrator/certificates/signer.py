"""The signer: looks at the evidence itself before it signs (certificates.md 3.5, DESIGN section 3 step 8).

Workers hold no key. A `Signer` gets an unsigned statement, hashes the evidence again, compares usage with
what follows from the relay's transcript and the outcome with the observations, and refuses with
`SigningRefusedError` where they disagree. Where the key itself lies (a file, an HSM, a cloud KMS) is the
affair of its `KeyHolder`; which key of several signs next is decided in `orchestrator.custody`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from orchestrator import canonical
from orchestrator.certificates import dsse, metered, rules, schema
from orchestrator.certificates.bound import why_not_bound
from orchestrator.certificates.errors import SigningRefusedError
from orchestrator.certificates.keys import KeyHolder
from orchestrator.certificates.statements import Statement, TryPredicate
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verify import ALWAYS_WITHHOLDABLE
from orchestrator.evidence import observed as observed_bytes
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import (
    MANIFEST_LIMIT_BYTES,
    EvidenceFile,
    EvidenceManifest,
    Role,
    read_withheld,
)
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import TranscriptError, read
from orchestrator.faults import decide
from orchestrator.observations import Observations
from orchestrator.verification.errors import VerificationError

OBSERVATIONS_LIMIT_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Signed:
    """A signed statement: exact envelope bytes, its digest, and for a try the manifest bytes."""

    envelope: bytes
    digest: str
    manifest: bytes | None = None


class Signer(Protocol):
    """Whatever holds the certificate key."""

    @property
    def keyid(self) -> str:
        """The id of the key that signs."""

    def sign(self, statement: Statement) -> Signed:
        """Check and sign; raises `SigningRefusedError`."""


class FileSigner:
    """Signs with one key, wherever held, after checking trust root, evidence, ledger and observations."""

    def __init__(self, key: KeyHolder, store: EvidenceStore, trust: TrustRoot) -> None:
        self._key = key
        self._store = store
        self._trust = trust

    @property
    def keyid(self) -> str:
        """The id of the key that signs."""
        return self._key.keyid

    def sign(self, statement: Statement) -> Signed:
        """Check and sign; the same statement always gives the same bytes."""
        data = statement.as_data()
        self._check_policy(statement, data)
        manifest = None
        if isinstance(statement.predicate, TryPredicate):
            manifest = self._check_evidence(statement.subject_sha256, statement.predicate)
        payload = canonical.encode(data)
        if len(payload) > schema.PAYLOAD_LIMIT_BYTES[statement.kind]:
            raise SigningRefusedError(f"the {statement.kind} statement is too large to be verified")
        signed = dsse.pae(dsse.STATEMENT_TYPE, payload)
        envelope = dsse.encode(payload, dsse.STATEMENT_TYPE, [(self.keyid, self._key.sign(signed))])
        return Signed(envelope, dsse.statement_digest(signed), manifest)

    def _check_policy(self, statement: Statement, data: dict[str, Any]) -> None:
        """Nothing is signed that our own verifier would call INVALID."""
        try:
            schema.shape(data, statement.kind)
        except VerificationError as error:
            raise SigningRefusedError(
                f"the {statement.kind} statement is malformed: {error.message}"
            ) from None
        found = rules.contradictions(data, statement.kind)
        if found:
            raise SigningRefusedError(
                f"the {statement.kind} statement contradicts itself: {found[0].code}: {found[0].detail}"
            )
        if data["predicate"]["issuer"] != self._trust.issuer:
            raise SigningRefusedError(f"issuer {data['predicate']['issuer']} is not that of the trust root")
        issued = data["predicate"]["time"]["issuedAt"]
        if not self._trust.usable(self.keyid, statement.kind, issued):
            raise self._not_allowed(statement.kind, issued)

    def _not_allowed(self, kind: str, issued: str) -> SigningRefusedError:
        key = self._trust.keys.get(self.keyid)
        if key is not None and kind not in key.usages:
            return SigningRefusedError(
                f"the trust root lists no usage {kind} for the certificate key {self.keyid}",
                hint="a key that `assize keys rotate` makes may sign it",
            )
        return SigningRefusedError(
            f"the trust root does not allow key {self.keyid} to sign {kind} at {issued}",
            hint="publish a trust root that lists the key",
        )

    def _check_evidence(self, manifest_digest: str, predicate: TryPredicate) -> bytes:
        try:
            raw = self._store.read(manifest_digest, MANIFEST_LIMIT_BYTES)
            manifest = EvidenceManifest.from_bytes(raw)
            self._hash_again(manifest, manifest_digest)
        except (EvidenceError, canonical.CanonicalFormError) as error:
            raise SigningRefusedError(f"the evidence does not hold: {error.message}") from None
        slot = predicate.slot
        if (manifest.attempt_id, manifest.try_id) != (slot.attempt_id, slot.id):
            raise SigningRefusedError("the evidence manifest belongs to another attempt")
        withheld = {file.role.value for file in manifest.files if file.sha256 is None}
        if withheld - ALWAYS_WITHHOLDABLE and not predicate.task.answer_key_withheld:
            raise SigningRefusedError("evidence is withheld though the task withholds none")
        seen = self._check_observations(manifest, predicate)
        self._check_ledger(manifest, predicate, seen)
        return raw

    def _hash_again(self, manifest: EvidenceManifest, manifest_digest: str) -> None:
        secret = read_withheld(self._store, manifest_digest)
        for file in manifest.files:
            if file.sha256 is not None:
                size = self._store.verify(file.sha256).size
            elif file.path not in secret:
                raise EvidenceError(f"the salt of the withheld file {file.path} is missing")
            else:
                item = secret[file.path]
                blob, salted = self._store.digests(item.sha256, bytes.fromhex(item.salt), withheld=True)
                size = blob.size
                if salted != file.salted_sha256:
                    raise EvidenceError(f"the withheld file {file.path} was altered")
            if size != file.size:
                raise EvidenceError(f"{file.path} has {size} bytes, listed are {file.size}")

    def _check_ledger(self, manifest: EvidenceManifest, predicate: TryPredicate, seen: Observations) -> None:
        """Usage is what follows from the relay's transcript; without one nothing can have been used."""
        transcripts = [file for file in manifest.files if file.role is Role.TRANSCRIPT]
        ledgers = [file for file in manifest.files if file.role is Role.METERING_LEDGER]
        usage = predicate.usage
        if len(transcripts) != len(ledgers) or len(transcripts) > 1:
            raise SigningRefusedError("the evidence needs one transcript with its ledger, or neither")
        if not transcripts:
            if usage.requests or usage.transcript is not None:
                raise SigningRefusedError("metered usage is claimed, but the evidence has no transcript")
            return
        transcript = self._read(transcripts[0], metered.TRANSCRIPT_LIMIT_BYTES)
        try:
            follows, ledger = metered.usage_of(transcript), metered.ledger_of(transcript)
            wrong = why_not_bound(read(transcript), predicate, seen)
        except TranscriptError as error:
            raise SigningRefusedError(f"the transcript does not hold: {error.message}") from None
        if self._read(ledgers[0], metered.TRANSCRIPT_LIMIT_BYTES) != ledger:
            raise SigningRefusedError("the metering ledger is not the one that follows from the transcript")
        if usage != follows:
            raise SigningRefusedError(f"the usage is not what follows from the transcript: {usage} {follows}")
        if wrong is not None:
            raise SigningRefusedError(wrong)

    def _check_observations(self, manifest: EvidenceManifest, predicate: TryPredicate) -> Observations:
        """Deciding again from the recorded observations must give the outcome that is to be certified."""
        observed = [file for file in manifest.files if file.role is Role.OBSERVATIONS]
        if not observed:
            raise SigningRefusedError("the evidence has no observations, so its outcome cannot be checked")
        if len(observed) > 1:
            raise SigningRefusedError("the evidence has more than one observation vector")
        try:
            seen = observed_bytes.decode(self._read(observed[0], OBSERVATIONS_LIMIT_BYTES))
        except EvidenceError as error:
            raise SigningRefusedError(error.message) from None
        again = decide(seen)
        result = predicate.result
        claimed = (result.outcome, result.reason, result.phase, result.rule)
        if claimed != (again.outcome, again.reason, again.phase, again.rule):
            raise SigningRefusedError(
                f"the observations say {again.outcome}/{again.reason} ({again.rule}), "
                f"the statement {result.outcome}/{result.reason} ({result.rule})"
            )
        return seen

    def _read(self, file: EvidenceFile, limit_bytes: int) -> bytes:
        if file.sha256 is None:
            raise SigningRefusedError(f"{file.path} ({file.role}) may not be withheld")
        try:
            return self._store.read(file.sha256, limit_bytes)
        except EvidenceError as error:
            raise SigningRefusedError(f"the evidence does not hold: {error.message}") from None
