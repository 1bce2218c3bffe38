"""The signing side of a screening: opening, every ended attempt, summary, and the files that carry them.

Ids and times of a statement come from the ledger's rows, so that certifying again after a crash gives the
same bytes: no try is ever certified twice with different content.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import bundle, dsse, issue, runner
from orchestrator.certificates.errors import KeyPositionError
from orchestrator.certificates.issue import OpenedScreening, TryFacts
from orchestrator.certificates.metered import TRANSCRIPT_LIMIT_BYTES, usage_of
from orchestrator.certificates.signer import Signed, Signer
from orchestrator.certificates.statements import Level, OpeningPredicate, Statement, TryPredicate, Usage
from orchestrator.errors import AssizeError
from orchestrator.evidence import observed
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import TranscriptError
from orchestrator.faults import Decision
from orchestrator.ids import new_id
from orchestrator.ledger import queries
from orchestrator.ledger.queries import AttemptView
from orchestrator.ledger.records import CertificateKind, StoredCertificate, add_certificate, certificates
from orchestrator.ledger.states import SlotState
from orchestrator.log.errors import LogConflictError, LogError
from orchestrator.observations import Observations
from orchestrator.screenings.bundling import predicate_of, statement_of, write_file, write_screening_bundle
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.opening import Sponsors, opening_statement
from orchestrator.screenings.orders import Bench
from orchestrator.screenings.private import require_public
from orchestrator.screenings.relaying import left_transcript
from orchestrator.verification.errors import VerificationError
from scoring.vocabulary import Outcome, Phase, Reason

REPORT_LIMIT_BYTES: Final = 1 << 20
_FILE_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")
_WHO: Final = "signer"
_TURNS: Final = 4


class UncertifiedError(AssizeError):
    """An ended attempt could not be certified now; it stays on the list of what is to be certified."""

    code = "uncertified"


@dataclass(frozen=True)
class RecordedEnd:
    """An attempt's end as the ledger keeps it, in the form that `issue` certifies."""

    decision: Decision
    manifest_digest: str | None
    reward: str | None
    checks_passed: int | None
    checks_total: int | None
    wall_ms: int
    handed_off_unix_ms: int
    finished_unix_ms: int
    runtime: str


def statement_id(kind: str, subject: str, at_unix_ms: int) -> str:
    """A ULID that depends on its arguments only."""
    drawn = int.from_bytes(hashlib.sha256(f"{kind}:{subject}".encode()).digest()[:10], "big")
    return new_id(at_unix_ms, drawn)


def recorded_end(view: AttemptView) -> RecordedEnd:
    """The end of an attempt from its row; raises `UncertifiedError` for one that has none."""
    row = view.row
    if row["outcome"] is None or row["reason"] is None or row["rule"] is None:
        raise UncertifiedError(f"attempt {row['id']} has no outcome to certify")
    details: dict[str, Any] = row["details"] or {}
    decision = Decision(
        outcome=Outcome(row["outcome"]),
        reason=Reason(row["reason"]),
        phase=Phase(row["phase"]),
        rule=row["rule"],
        evidence=tuple(details.get("evidence") or ()),
        suspect=bool(row["suspect"]),
    )
    handed_off = row["handed_off_ms"] or row["claimed_ms"]
    finished = row["finished_ms"] or row["ended_ms"]
    return RecordedEnd(
        decision=decision,
        manifest_digest=view.manifest_digest,
        reward=row["reward"],
        checks_passed=row["checks_passed"],
        checks_total=row["checks_total"],
        wall_ms=row["wall_ms"] if row["wall_ms"] is not None else max(0, finished - handed_off),
        handed_off_unix_ms=handed_off,
        finished_unix_ms=max(finished, handed_off),
        runtime=row["runtime"] or "",
    )


class Certifier:
    """Certifies one screening; used by the thread that holds the signer, never by workers."""

    def __init__(
        self, installation: Installation, signer: Signer, issuer: str, bench: Bench, screening_id: str
    ):
        self._installation = installation
        self._signer = signer
        self._logbook = installation.logbook()
        self._issuer = issuer
        self._bench = bench
        self._screening_id = screening_id
        self._opened: OpenedScreening | None = None

    @property
    def folder(self) -> Path:
        """Where the files of this screening lie."""
        return self._installation.home.certificates / self._screening_id

    def open(self, sponsors: Sponsors) -> None:
        """Sign and store the opening statement unless it is there; nothing may start before.

        Raises `PrivateError` for a screening that was planned as private, whatever is asked now.
        """
        require_public(self._installation.ledger, self._screening_id)
        if self._stored(CertificateKind.OPENING):
            return
        row = queries.screening(self._installation.ledger, self._screening_id)
        statement = opening_statement(
            self._bench,
            sponsors,
            screening_id=self._screening_id,
            statement_id=statement_id("opening", self._screening_id, row["created_ms"]),
            issuer=self._issuer,
            opened_unix_ms=row["created_ms"],
        )
        signed = self._signed(statement)
        self._write("opening.json", signed.envelope)
        self._keep(CertificateKind.OPENING, signed, None)

    def certify(self, attempt_id: str) -> None:
        """Certify one ended attempt and write its bundle; raises `AssizeError` when it cannot be done now."""
        installation = self._installation
        view = queries.show_attempt(installation.ledger, attempt_id)
        slot = queries.show_try(installation.ledger, view.row["slot_id"])
        end = recorded_end(view)
        if end.manifest_digest is None:
            end = self._with_observations(view, end)
        number = view.row["number"]
        used = self._really_used(slot.row["task_id"], end)
        facts = TryFacts(
            certificate_id=statement_id("certificate", attempt_id, view.row["ended_ms"]),
            try_id=slot.row["id"],
            attempt_id=attempt_id,
            task_id=slot.row["task_id"],
            index=slot.row["k"],
            attempt=number,
            replaces=self._replaced(slot.attempts, number),
            level=self._level(),
            grading_place=used["grading"],
            images=tuple((role, used[role].removeprefix("sha256:")) for role in ("agent", "grader")),
            runner_version=runner.identity()[0],
            runner_digest=runner.identity()[1],
        )
        usage = self._usage(end.manifest_digest or "")
        statement = issue.try_certificate(
            self._opening(), facts, end, usage, issued_unix_ms=self._issued(view, end)
        )
        signed, proof = self._logged(attempt_id, statement)
        name = f"{_FILE_UNFIT.sub('_', facts.task_id)}.try{facts.index}.attempt{number}{bundle.TRY_SUFFIX}"
        raw = bundle.encode_try(
            signed.envelope, signed.manifest or b"", proof, chain=installation.roots.chain()
        )
        path = self._write(name, raw)
        self._keep(CertificateKind.TRY, signed, attempt_id, path)

    def _level(self) -> Level:
        """What this screening's tries can show at most; what runs elsewhere is nobody's to verify."""
        if self._bench.agent.revision.endpoint is not None:
            return "unverified"
        return "simulated" if self._bench.conditions.rehearsal_digest else "verified"

    def close(self) -> Path:
        """Sign the summary of a closed screening and write its bundle; returns the bundle's path."""
        closed = self._stored(CertificateKind.SUMMARY)
        if not closed:
            self._keep(CertificateKind.SUMMARY, self._signed(self._summary()), None)
            closed = self._stored(CertificateKind.SUMMARY)
        return write_screening_bundle(self._installation, self._screening_id, closed[0].envelope)

    def _summary(self) -> Statement:
        ledger = self._installation.ledger
        row = queries.screening(ledger, self._screening_id)
        stored = certificates(ledger, self._screening_id)
        tries = [one for one in stored if one.kind is CertificateKind.TRY]
        slots = queries.tries(ledger, self._screening_id)
        cancelled = frozenset(
            (slot.row["task_id"], slot.row["k"]) for slot in slots if slot.row["state"] == SlotState.CANCELLED
        )
        predicates = [self._predicate(one) for one in tries]
        listed = [issue.listed(body, one.digest) for body, one in zip(predicates, tries, strict=True)]
        # A clock that was set back must not make the summary older than what it closes.
        last = max((_unix_ms(body.time.issued_at) for body in predicates), default=0)
        return issue.summary(
            self._opening(),
            listed,
            statement_id=statement_id("summary", self._screening_id, row["closed_ms"]),
            closed_unix_ms=max(row["closed_ms"], last),
            cancelled=cancelled,
        )

    def _signed(self, statement: Statement) -> Signed:
        """Sign and log. Where others moved the log to the positions of another key meanwhile: once more."""
        for _ in range(_TURNS - 1):
            with suppress(KeyPositionError):
                return self._entered(self._signer.sign(statement))
        return self._entered(self._signer.sign(statement))

    def _entered(self, signed: Signed) -> Signed:
        """Log before anything is stored: what the ledger knows as certified is in the log.

        A run that died in between may have logged this statement as an earlier version of us spelled it:
        then that one stands, if it is about the same evidence. Any other conflict is raised.
        """
        if self._logbook is None:
            return signed
        try:
            self._logbook.enter(signed.envelope)
        except LogConflictError as conflict:
            earlier = self._logbook.statement(conflict.held)
            if earlier is None or _subject(earlier) != _subject(signed.envelope):
                raise
            return replace(signed, envelope=earlier, digest=_digest(earlier))
        return signed

    def _logged(self, attempt_id: str, statement: Statement) -> tuple[Signed, bytes | None]:
        """Log a certificate; the one that is logged with its proof, None under a trust root without logs."""
        if self._logbook is None:
            return self._signer.sign(statement), None
        try:
            entered = self._signed(statement)
            return entered, self._logbook.prove([entered.envelope])[0].encode()
        except (LogError, KeyPositionError, VerificationError) as error:
            raise UncertifiedError(f"attempt {attempt_id} is not logged: {error.message}") from error

    def _with_observations(self, view: AttemptView, end: RecordedEnd) -> RecordedEnd:
        """Evidence for an attempt whose worker could leave none: what the ledger knows was observed."""
        data = (view.row["details"] or {}).get("observations") or {}
        try:
            seen = observed.decode(observed.encode(_observations(data), end.decision))
            digest, decision = observed.seal_alone(
                self._installation.store,
                attempt_id=view.row["id"],
                try_id=view.row["slot_id"],
                seen=seen,
                transcript=left_transcript(self._installation.home, view.row["id"]),
            )
        except EvidenceError as error:
            raise UncertifiedError(f"attempt {view.row['id']}: {error.message}") from None
        if (decision.outcome, decision.reason) != (end.decision.outcome, end.decision.reason):
            raise UncertifiedError(f"attempt {view.row['id']}: its observations do not give its outcome")
        return RecordedEnd(**{**vars(end), "decision": decision, "manifest_digest": digest})

    @staticmethod
    def _issued(view: AttemptView, end: RecordedEnd) -> int:
        return int(max(view.row["ended_ms"], end.finished_unix_ms))

    @staticmethod
    def _replaced(attempts: tuple[AttemptView, ...], number: int) -> str | None:
        """The certificate of the platform fault that allowed this attempt; None for the first."""
        if number == 1:
            return None
        before = [
            one.certificate_digest
            for one in attempts
            if one.row["number"] == number - 1 and one.row["outcome"] == Outcome.PLATFORM_FAULT
        ]
        if not before or before[-1] is None:
            raise UncertifiedError("the attempt before it has no certificate yet")
        return before[-1]

    def _really_used(self, task_id: str, end: RecordedEnd) -> dict[str, Any]:
        """Images and grading place from the attempt's own sandbox report; the plan's where there is none."""
        pack, images = self._bench.pack, self._bench.images[task_id]
        planned = {
            "agent": images.agent,
            "grader": images.grader,
            "grading": pack.grading(pack.task(task_id)),
        }
        report = sandbox_report(self._installation.store, end.manifest_digest or "")
        return planned if report is None else {**report["images"], "grading": report["grading"]}

    def _usage(self, manifest_digest: str) -> Usage:
        """What follows from the transcript; an agent that calls no model can have used nothing."""
        if self._bench.agent.revision.endpoint is not None:
            return Usage.unmetered()
        if not self._bench.agent.revision.models:
            return Usage.none_possible()
        store = self._installation.store
        manifest = EvidenceManifest.from_bytes(store.read(manifest_digest, MANIFEST_LIMIT_BYTES))
        found = [file.sha256 for file in manifest.files if file.role is Role.TRANSCRIPT and file.sha256]
        try:
            return usage_of(store.read(found[0], TRANSCRIPT_LIMIT_BYTES)) if found else Usage.unmetered()
        except TranscriptError as error:
            raise UncertifiedError(f"the transcript does not hold: {error.message}") from None

    def _opening(self) -> OpenedScreening:
        if self._opened is None:
            stored = self._stored(CertificateKind.OPENING)
            if not stored:
                raise UncertifiedError(f"screening {self._screening_id} has no opening statement")
            predicate = OpeningPredicate.model_validate(predicate_of(stored[0]), strict=False)
            self._opened = OpenedScreening(predicate, stored[0].digest)
        return self._opened

    def _predicate(self, stored: StoredCertificate) -> TryPredicate:
        return TryPredicate.model_validate(predicate_of(stored), strict=False)

    def _stored(self, kind: CertificateKind) -> list[StoredCertificate]:
        return certificates(self._installation.ledger, self._screening_id, kind)

    def _write(self, name: str, data: bytes) -> Path:
        return write_file(self.folder / name, data)

    def _keep(
        self, kind: CertificateKind, signed: Signed, attempt_id: str | None, path: Path | None = None
    ) -> None:
        home = self._installation.home.root
        add_certificate(
            self._installation.ledger,
            screening_id=self._screening_id,
            kind=kind,
            digest=signed.digest,
            envelope=signed.envelope,
            who=_WHO,
            attempt_id=attempt_id,
            path=str(path.relative_to(home)) if path else None,
        )


def sandbox_report(store: EvidenceStore, manifest_digest: str) -> dict[str, Any] | None:
    """The sandbox report among an attempt's evidence; None for an attempt that could leave none."""
    manifest = EvidenceManifest.from_bytes(store.read(manifest_digest, MANIFEST_LIMIT_BYTES))
    found = [file.sha256 for file in manifest.files if file.role is Role.SANDBOX_REPORT and file.sha256]
    if not found:
        return None
    report: dict[str, Any] = canonical.decode_strict(store.read(found[0], REPORT_LIMIT_BYTES))
    return report


def _unix_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def _subject(envelope: bytes) -> tuple[str, str]:
    """Kind of a statement, and the digest of what it is about."""
    statement = statement_of(envelope)
    return statement["predicateType"], statement["subject"][0]["digest"]["sha256"]


def _digest(envelope: bytes) -> str:
    return dsse.statement_digest(dsse.decode(envelope, dsse.STATEMENT_TYPE, len(envelope)).signed_bytes())


def _observations(data: dict[str, Any]) -> Observations:
    return Observations(**data)
