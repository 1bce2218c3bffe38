"""Pure builders of the three statements: plain inputs in, an unsigned `Statement` out.

No clock, no database, no random numbers: ids and times come from the caller, so that a builder can be
called again after a crash and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.certificates import rules
from orchestrator.certificates.errors import CertificateError
from orchestrator.certificates.statements import (
    Agent,
    BoundParties,
    CertifiedTask,
    ComparableConditions,
    Conditions,
    Grader,
    GradingPlace,
    Image,
    Label,
    Level,
    ListedCertificate,
    OpenedPack,
    OpeningPredicate,
    OpeningTime,
    Pack,
    Parties,
    PlannedTask,
    Result,
    Runner,
    Sandbox,
    Sha256,
    Simulator,
    Statement,
    SummaryPredicate,
    SummaryTime,
    TryPredicate,
    TrySlot,
    TryTime,
    UnrecordedTry,
    Usage,
    utc_text,
)
from orchestrator.faults import Decision
from scoring.vocabulary import Outcome

_UNCHECKED = Sha256(sha256="0" * 64)


def opening(
    *,
    statement_id: str,
    issuer: str,
    screening: Parties,
    pack: OpenedPack,
    plan: Sequence[PlannedTask],
    agent: Agent,
    judge: str,
    grader: Grader,
    simulator: Simulator | None,
    conditions: Conditions,
    opened_unix_ms: int,
    provenance_label: Label = "independently-evaluated",
) -> Statement:
    """The opening statement, with the comparability digest of its conditions; subject: pack manifest."""
    opened = utc_text(opened_unix_ms)
    bare = OpeningPredicate(
        issuer=issuer,
        statement_id=statement_id,
        screening=screening,
        pack=pack,
        plan=tuple(plan),
        agent=agent,
        judge=judge,
        grader=grader,
        simulator=simulator,
        conditions=ComparableConditions(**dict(conditions), comparability=_UNCHECKED),
        time=OpeningTime(opened_at=opened, issued_at=opened),
        provenance_label=provenance_label,
    )
    digest = rules.comparability(bare.model_dump(mode="json", by_alias=True))
    full = bare.conditions.model_copy(update={"comparability": Sha256(sha256=digest)})
    return Statement(pack.digest.sha256, bare.model_copy(update={"conditions": full}))


@dataclass(frozen=True)
class OpenedScreening:
    """A signed opening: its content and the digest that certificates name."""

    predicate: OpeningPredicate
    digest: str

    def parties(self) -> BoundParties:
        """The parties bound to this opening."""
        return BoundParties(**dict(self.predicate.screening), opening_digest=Sha256(sha256=self.digest))

    def task(self, task_id: str) -> PlannedTask:
        """The planned task; raises `CertificateError` for one that the opening does not name."""
        for entry in self.predicate.plan:
            if entry.task_id == task_id:
                return entry
        raise CertificateError(f"task {task_id!r} is not in the opening of this screening")


@dataclass(frozen=True)
class TryFacts:
    """What names one attempt and where it ran.

    `images` are (role, 64 hex) of the image Ids really used (roles `agent` and `grader`); `replaces` is
    the certificate digest of the platform fault that allowed this attempt, None for attempt 1.
    """

    certificate_id: str
    try_id: str
    attempt_id: str
    task_id: str
    index: int
    attempt: int
    replaces: str | None
    level: Level
    grading_place: GradingPlace
    images: tuple[tuple[str, str], ...]
    runner_version: str
    runner_digest: str


class EndedAttempt(Protocol):
    """What is certified of an attempt's end; an `orchestrator.attempts.AttemptReport` is one."""

    @property
    def decision(self) -> Decision:
        """Outcome, reason, phase and rule."""

    @property
    def manifest_digest(self) -> str | None:
        """Digest of the evidence manifest."""

    @property
    def reward(self) -> str | None:
        """The grader's number as a decimal string."""

    @property
    def checks_passed(self) -> int | None:
        """Checks that passed, where the grader counts them."""

    @property
    def checks_total(self) -> int | None:
        """All checks, where the grader counts them."""

    @property
    def wall_ms(self) -> int:
        """Hand-off to end on a monotonic clock."""

    @property
    def handed_off_unix_ms(self) -> int:
        """When the attempt was handed off."""

    @property
    def finished_unix_ms(self) -> int:
        """When it ended."""

    @property
    def runtime(self) -> str:
        """The container runtime read back from the engine; empty when nothing started."""


def _result(report: EndedAttempt) -> Result:
    decision = report.decision
    fault: dict[Outcome, str | None] = {Outcome(k): v for k, v in rules.FAULT_CLASS.items()}
    return Result.model_validate(
        {
            "outcome": decision.outcome,
            "reason": decision.reason,
            "phase": decision.phase,
            "faultClass": fault[decision.outcome],
            "rule": decision.rule,
            "restsOn": tuple(decision.evidence),
            "suspect": decision.suspect,
            "reward": report.reward,
            "checksPassed": report.checks_passed,
            "checksTotal": report.checks_total,
        }
    )


def _sandbox(facts: TryFacts, runtime: str) -> Sandbox:
    return Sandbox(
        level=facts.level,
        runtime=runtime or None,
        grading_place=facts.grading_place,
        images=tuple(Image(role=role, digest=Sha256(sha256=hex_)) for role, hex_ in facts.images),
        runner=Runner(version=facts.runner_version, digest=Sha256(sha256=facts.runner_digest)),
    )


def try_certificate(
    opened: OpenedScreening,
    facts: TryFacts,
    report: EndedAttempt,
    usage: Usage,
    *,
    issued_unix_ms: int,
) -> Statement:
    """The certificate of one attempt's end; subject: the evidence manifest named by the report.

    Raises `CertificateError` for a report without a manifest: seal what was observed first.
    """
    if report.manifest_digest is None:
        raise CertificateError(f"attempt {facts.attempt_id} has no evidence manifest to certify")
    plan, task = opened.predicate, opened.task(facts.task_id)
    pack = plan.pack
    predicate = TryPredicate.model_validate(
        {
            "issuer": plan.issuer,
            "certificateId": facts.certificate_id,
            "screening": opened.parties(),
            "pack": Pack(id=pack.id, version=pack.version, digest=pack.digest),
            "task": CertifiedTask(
                id=task.task_id,
                digest=task.digest,
                answer_key_withheld=task.answer_key_withheld,
                caps=task.caps,
            ),
            "try": TrySlot(
                id=facts.try_id,
                attempt_id=facts.attempt_id,
                index=facts.index,
                of=task.tries,
                attempt=facts.attempt,
                replaces=None if facts.replaces is None else Sha256(sha256=facts.replaces),
            ),
            "agent": plan.agent,
            "judge": plan.judge,
            "grader": plan.grader,
            "simulator": plan.simulator,
            "sandbox": _sandbox(facts, report.runtime),
            "conditions": plan.conditions,
            "usage": usage,
            "result": _result(report),
            "time": TryTime(
                handed_off_at=utc_text(report.handed_off_unix_ms),
                finished_at=utc_text(report.finished_unix_ms),
                issued_at=utc_text(issued_unix_ms),
                wall_ms=report.wall_ms,
            ),
            "provenanceLabel": plan.provenance_label,
        }
    )
    return Statement(report.manifest_digest, predicate)


def listed(certificate: TryPredicate, digest: str) -> ListedCertificate:
    """How the summary lists one certificate."""
    return ListedCertificate(
        task_id=certificate.task.id,
        index=certificate.slot.index,
        attempt=certificate.slot.attempt,
        outcome=certificate.result.outcome,
        reason=certificate.result.reason,
        level=certificate.sandbox.level,
        wall_ms=certificate.time.wall_ms,
        digest=Sha256(sha256=digest),
    )


def summary(
    opened: OpenedScreening,
    certificates: Iterable[ListedCertificate],
    *,
    statement_id: str,
    closed_unix_ms: int,
    cancelled: frozenset[tuple[str, int]] = frozenset(),
) -> Statement:
    """The closing statement; planned tries without a certificate are listed as unrecorded.

    Certificates are put in plan order (task, index, attempt); `cancelled` names the (task id, index) that
    the operator cancelled. A screening bundle holds its try bundles in this same order.
    """
    order = {entry.task_id: place for place, entry in enumerate(opened.predicate.plan)}
    inside = sorted(certificates, key=lambda c: (order[c.task_id], c.index, c.attempt))
    recorded = {(entry.task_id, entry.index) for entry in inside}
    unrecorded = [
        UnrecordedTry(
            task_id=entry.task_id,
            index=index,
            why="cancelled" if (entry.task_id, index) in cancelled else "never_recorded",
        )
        for entry in opened.predicate.plan
        for index in range(1, entry.tries + 1)
        if (entry.task_id, index) not in recorded
    ]
    closed = utc_text(closed_unix_ms)
    predicate = SummaryPredicate(
        issuer=opened.predicate.issuer,
        statement_id=statement_id,
        screening=opened.parties(),
        certificates=tuple(inside),
        unrecorded=tuple(unrecorded),
        time=SummaryTime(closed_at=closed, issued_at=closed),
    )
    return Statement(opened.digest, predicate)
